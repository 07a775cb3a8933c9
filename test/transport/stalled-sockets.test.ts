import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { watchStalled } from "../../src/transport/connections/http1-server.js";

const stalledMs = 300;

/** More than both sockets' buffers hold. */
const large = Buffer.alloc(32 * 1024 * 1024);

describe("sockets that hold bytes which their reader does not take", () => {
  let server: Server;
  let stalled: NodeJS.Timeout;
  let reader: Socket;
  let written: Socket;
  let watched: Map<Socket, undefined>;

  beforeEach(async () => {
    watched = new Map();
    stalled = watchStalled(watched, stalledMs);
    server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("it listens on no port");
    const connected: Promise<Socket[]> = once(server, "connection");
    reader = connect(address.port, "127.0.0.1");
    const [socket] = await connected;
    if (socket === undefined) throw new Error("nobody connected");
    written = socket;
    // As an HTTP server does.
    written.on("timeout", () => written.destroy());
    watched.set(written, undefined);
  });

  afterEach(() => {
    clearInterval(stalled);
    reader.destroy();
    written.destroy();
    server.close();
  });

  test("are cut", async () => {
    written.write(large);
    await expect.poll(() => written.destroyed).toBe(true);
  });

  test("are left alone once all was taken, however long nothing more comes", async () => {
    written.write(large);
    await expect.poll(() => written.timeout, { interval: 5 }).toBe(stalledMs);
    reader.resume();
    await expect.poll(() => written.writableLength, { interval: 5 }).toBe(0);
    await sleep(5 * stalledMs);
    expect(written.destroyed).toBe(false);
  });
});
