import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { describe, expect, test } from "vitest";
import type { ServerOptions } from "../../../src/transport/server.js";
import type { ListeningServer } from "../../support/listening.js";
import { partnerProgram } from "../../support/partners.js";
import { RawConnection } from "../../support/raw-http.js";
import { serveFake } from "../serve-fake.js";

/* Peers that send too slowly, or nothing: each stage of a connection has a time limit that ends it. */

const limits = { headersTimeoutMs: 300, requestReceiveTimeoutMs: 600, keepAliveTimeoutMs: 300, lingerMs: 50 };
const slackMs = 3_000;

/** Gives a server of its own to what waits for it: many wait at once. */
async function withServer(tls: ServerOptions["tls"], use: (server: ListeningServer) => Promise<void>): Promise<void> {
  const { server } = await serveFake({ limits, ...(tls === undefined ? {} : { tls }) });
  try {
    await use(server);
  } finally {
    await server.close();
  }
}

/** Sends `bytes`, then one of `drip` every 50 ms; gives what was received when the server hangs up. */
async function slowly(server: ListeningServer, bytes: string, drip: string): Promise<string> {
  const connection = await RawConnection.open(server.address.port);
  const startedMs = performance.now();
  connection.socket.write(bytes);
  const dripping = setInterval(() => connection.socket.write(drip), 50);
  await connection.ending();
  clearInterval(dripping);
  connection.close();
  expect(performance.now() - startedMs).toBeLessThan(limits.requestReceiveTimeoutMs + slackMs);
  return connection.received;
}

const post =
  "POST /datanode.api.v2.TradingDataService/GetMarket HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";

describe("without TLS", { concurrent: true }, () => {
  test.each([
    ["nothing", "", "", /^$/],
    ["one byte", "G", "", /^HTTP\/1\.1 408 /],
    ["two bytes of HTTP/2's preface", "PR", "", /^$/],
    ["headers without end", "GET / HTTP/1.1\r\nHost: x\r\n", "", /^HTTP\/1\.1 408 /],
    ["headers byte by byte", "GET / HTTP/1.1\r\nX: ", "x", /^HTTP\/1\.1 408 /],
    ["a body that never comes", `${post}Content-Length: 1000\r\n\r\n`, "", /^HTTP\/1\.1 408 /],
    ["a body byte by byte", `${post}Content-Length: 1000\r\n\r\n`, "x", /^HTTP\/1\.1 408 /],
    [
      "a body of an unusual type byte by byte",
      `${post.replace("json", "json; charset=utf-8")}Content-Length: 1000\r\n\r\n`,
      "x",
      /^HTTP\/1\.1 408 /,
    ],
    ["chunks byte by byte", `${post}Transfer-Encoding: chunked\r\n\r\n`, "1\r\nx\r\n", /^HTTP\/1\.1 408 /],
    [
      "a GET with a body byte by byte",
      "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
      "x",
      /alive"\}$/,
    ],
    ["a request, and no other", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "", /alive"\}$/],
    ["a request, and one byte", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nG", "", /alive"\}(HTTP\/1\.1 408 [\s\S]*)?$/],
  ])("%s", async (_name, bytes, drip, received) => {
    await withServer(undefined, async (server) => {
      expect(await slowly(server, bytes, drip)).toMatch(received);
    });
  });
});

describe.skipIf(partnerProgram("openssl") === undefined)("with TLS", { concurrent: true }, () => {
  function certificate(): { key: string; certificate: string } {
    const folder = mkdtempSync(join(tmpdir(), "tls-"));
    const openssl = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost";
    const args = [...openssl.split(" "), "-keyout", "key", "-out", "certificate"];
    execFileSync(partnerProgram("openssl") ?? "", args, { cwd: folder, stdio: "ignore" });
    const pem = (name: string): string => readFileSync(join(folder, name), "utf8");
    const tls = { key: pem("key"), certificate: pem("certificate") };
    rmSync(folder, { recursive: true });
    return tls;
  }

  test.each([
    ["no handshake", ""],
    ["a handshake that never ends", "\x16\x03\x01\x02\0\x01"],
  ])("%s", async (_name, bytes) => {
    await withServer(certificate(), async (server) => {
      await slowly(server, bytes, "");
    });
  });

  /** The limit of a handshake is short here, and a busy machine may miss it: then another is tried. */
  async function handshake(port: number): Promise<TLSSocket> {
    const socket = connectTls({ port, rejectUnauthorized: false });
    socket.on("error", () => {});
    socket.resume();
    const isSecure = await new Promise((resolve) => {
      socket.once("secureConnect", () => resolve(true));
      socket.once("close", () => resolve(false));
    });
    return isSecure ? socket : handshake(port);
  }

  test.each(["", "G", "GET / HTTP/1.1\r\nX: "])("a handshake, and then %j", async (bytes) => {
    await withServer(certificate(), async (server) => {
      const socket = await handshake(server.address.port);
      const startedMs = performance.now();
      if (bytes !== "") socket.write(bytes);
      await new Promise((resolve) => socket.once("close", resolve));
      expect(performance.now() - startedMs).toBeLessThan(limits.headersTimeoutMs + slackMs);
    });
  });
});
