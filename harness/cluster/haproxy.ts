import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "../../test/support/free-port.js";
import { startChild } from "../chaos/children.js";

/** The user whose only right is to connect: HAProxy asks as it whether a server is fit. It has no password. */
export const monitorUser = "monitor";

/**
 * True of a node that has all that its cluster committed (4), or had until it began to send a node what that one missed
 * (2), and of every server that is not in a cluster.
 */
const fitSql =
  "SELECT IF(@@wsrep_on = 0 OR (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS " +
  "WHERE VARIABLE_NAME = 'wsrep_local_state') IN (2, 4), 'in service', 'away') AS state";

const acceptMaxMs = 5_000;
const acceptPollMs = 20;

/** A server behind HAProxy. */
export interface Backend {
  readonly name: string;
  readonly port: number;
}

/**
 * HAProxy before a cluster: a reader port, whose connections go to all servers in turn, and a writer port, whose
 * connections go to the first of the writers that is fit. Connections to a server that is not fit any more are ended.
 */
export class HaProxy {
  #child: ChildProcess | undefined;

  private constructor(
    private readonly program: string,
    private readonly directory: string,
    readonly readerPort: number,
    readonly writerPort: number,
  ) {}

  /** @param readers all servers @param writers those of the readers that may be written to, the preferred one first */
  static async before(
    program: string,
    directory: string,
    readers: readonly Backend[],
    writers: readonly Backend[],
  ): Promise<HaProxy> {
    const haproxy = new HaProxy(program, directory, await freePort(), await freePort());
    writeFileSync(haproxy.#configuration, haproxy.#describe(readers, writers));
    await haproxy.start();
    return haproxy;
  }

  /** Resolves when both ports accept connections. @throws Error when they do not */
  async start(): Promise<void> {
    const log = openSync(join(this.directory, "haproxy.log"), "a");
    this.#child = startChild(this.program, ["-db", "-f", this.#configuration], { stdio: ["ignore", log, log] });
    closeSync(log);
    const until = performance.now() + acceptMaxMs;
    for (const port of [this.readerPort, this.writerPort]) {
      while (!(await accepts(port))) {
        if (performance.now() > until) throw new Error("haproxy does not start");
        await delay(acceptPollMs);
      }
    }
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  get #configuration(): string {
    return join(this.directory, "haproxy.cfg");
  }

  /** A server that stands still is away after two seconds, one that is killed after half a second. */
  #describe(readers: readonly Backend[], writers: readonly Backend[]): string {
    const idOf = ({ name }: Backend): string => name.replaceAll(" ", "-");
    const reader = (each: Backend): string =>
      `  server ${idOf(each)} 127.0.0.1:${each.port} check inter 300ms fastinter 100ms fall 3 rise 1 on-marked-down shutdown-sessions`;
    const writer = (each: Backend, index: number): string => {
      // One writer at a time: when the preferred one is back, its stand-in loses its connections.
      const place = index === 0 ? "on-marked-up shutdown-backup-sessions" : "backup";
      return `  server ${idOf(each)} 127.0.0.1:${each.port} track reader/${idOf(each)} on-marked-down shutdown-sessions ${place}`;
    };
    return [
      "global",
      "  maxconn 2000",
      "defaults",
      "  mode tcp",
      "  timeout connect 500ms",
      "  timeout check 600ms",
      "  timeout client 10m",
      "  timeout server 10m",
      "  retries 3",
      "  option redispatch 1",
      "listen reader",
      `  bind 127.0.0.1:${this.readerPort}`,
      "  balance roundrobin",
      ...check,
      ...readers.map(reader),
      "listen writer",
      `  bind 127.0.0.1:${this.writerPort}`,
      ...writers.map(writer),
      "",
    ].join("\n");
  }
}

/**
 * A session of the MySQL protocol in which {@link monitorUser} asks whether the server is fit. The question and the
 * goodbye leave together, so that a response that says no is known to be whole.
 */
const check = [
  "  option tcp-check",
  "  tcp-check connect",
  // The greeting, of protocol version 10.
  "  tcp-check expect binary 0a",
  `  tcp-check send-binary ${packet(1, handshakeResponse())}`,
  // An OK packet, the second of this exchange.
  "  tcp-check expect binary 0000020000",
  `  tcp-check send-binary ${packet(0, Buffer.from(`\x03${fitSql}`))}${packet(0, Buffer.from([1]))}`,
  '  tcp-check expect string "in service"',
];

/** `HandshakeResponse41` without a password, for `mysql_native_password`. */
function handshakeResponse(): Buffer {
  const longPassword = 0x1;
  const protocol41 = 0x200;
  const secureConnection = 0x8000;
  const head = Buffer.alloc(32);
  head.writeUInt32LE(longPassword | protocol41 | secureConnection, 0);
  head.writeUInt32LE(0xff_ffff, 4);
  const utf8 = 33;
  head.writeUInt8(utf8, 8);
  return Buffer.concat([head, Buffer.from(`${monitorUser}\0\0`)]);
}

function packet(sequence: number, payload: Buffer): string {
  const header = Buffer.alloc(4);
  header.writeUIntLE(payload.length, 0, 3);
  header.writeUInt8(sequence, 3);
  return Buffer.concat([header, payload]).toString("hex");
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
