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

const acceptMaxMs = 5_000;
const acceptPollMs = 20;

/** A server behind HAProxy; its clients come by its socket's file. */
export interface Backend {
  readonly name: string;
  readonly socketPath: string;
}

/** What is behind HAProxy. */
export interface Backends {
  /** All servers, and what each is asked: it takes connections while it says `in service`. */
  readonly readers: readonly Backend[];
  readonly readerSql: string;
  /** Those of them that may be written to, the preferred one first. */
  readonly writers: readonly Backend[];
  /** What a writer is asked; undefined: the first that is fit to be read from is written to. */
  readonly writerSql: string | undefined;
  /** How {@link monitorUser} says that it has no password. */
  readonly authenticationPlugin: string;
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

  static async before(program: string, directory: string, backends: Backends): Promise<HaProxy> {
    const haproxy = new HaProxy(program, directory, await freePort(), await freePort());
    writeFileSync(haproxy.#configuration, haproxy.#describe(backends));
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
  #describe({ readers, readerSql, writers, writerSql, authenticationPlugin }: Backends): string {
    const idOf = ({ name }: Backend): string => name.replaceAll(" ", "-");
    const server = (each: Backend): string => `  server ${idOf(each)} unix@${each.socketPath}`;
    const checked = "check inter 300ms fastinter 100ms fall 3 rise 1 on-marked-down shutdown-sessions";
    const writer = (each: Backend, index: number): string => {
      if (writerSql !== undefined) return `${server(each)} ${checked}`;
      // One writer at a time: when the preferred one is back, its stand-in loses its connections.
      const place = index === 0 ? "on-marked-up shutdown-backup-sessions" : "backup";
      return `${server(each)} track reader/${idOf(each)} on-marked-down shutdown-sessions ${place}`;
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
      ...checkLines(readerSql, authenticationPlugin),
      ...readers.map((each) => `${server(each)} ${checked}`),
      "listen writer",
      `  bind 127.0.0.1:${this.writerPort}`,
      ...(writerSql === undefined ? [] : checkLines(writerSql, authenticationPlugin)),
      ...writers.map(writer),
      "",
    ].join("\n");
  }
}

/**
 * A session of the MySQL protocol in which {@link monitorUser} asks whether the server is fit. The question and the
 * goodbye leave together, so that a response that says no is known to be whole.
 */
export function checkLines(sql: string, authenticationPlugin: string): string[] {
  return [
    "  option tcp-check",
    "  tcp-check connect",
    // The greeting, of protocol version 10.
    "  tcp-check expect binary 0a",
    `  tcp-check send-binary ${packet(1, handshakeResponse(authenticationPlugin))}`,
    // An OK packet, the second of this exchange.
    "  tcp-check expect binary 0000020000",
    `  tcp-check send-binary ${packet(0, Buffer.from(`\x03${sql}`))}${packet(0, Buffer.from([1]))}`,
    '  tcp-check expect string "in service"',
  ];
}

/** `HandshakeResponse41` without a password. */
function handshakeResponse(authenticationPlugin: string): Buffer {
  const longPassword = 0x1;
  const protocol41 = 0x200;
  const secureConnection = 0x8000;
  const pluginAuth = 0x8_0000;
  const head = Buffer.alloc(32);
  head.writeUInt32LE(longPassword | protocol41 | secureConnection | pluginAuth, 0);
  head.writeUInt32LE(0xff_ffff, 4);
  const utf8 = 33;
  head.writeUInt8(utf8, 8);
  return Buffer.concat([head, Buffer.from(`${monitorUser}\0\0${authenticationPlugin}\0`)]);
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
