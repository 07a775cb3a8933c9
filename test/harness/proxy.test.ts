import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { DatabaseProxy } from "../../harness/chaos/proxy.js";

const byteIntervalMs = 2;
const slowMs = 60;
const changes = 4;

describe("the proxy between marketd and its database", () => {
  it("keeps the order of bytes when a slow path heals", async () => {
    const server = createServer((socket) => {
      let sent = 0;
      const sending = setInterval(() => socket.write(Buffer.of(sent++ % 256)), byteIntervalMs);
      socket.on("close", () => clearInterval(sending));
      socket.on("error", () => {});
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const proxy = await DatabaseProxy.before((server.address() as AddressInfo).port);
    const client = connect(proxy.port, "127.0.0.1");
    const received: number[] = [];
    client.on("data", (bytes) => received.push(...bytes));
    for (let change = 0; change < changes; change++) {
      await delay(2 * slowMs);
      proxy.setPath({ kind: "slow", delayMs: slowMs });
      await delay(2 * slowMs);
      proxy.setPath({ kind: "open" });
    }
    await delay(2 * slowMs);
    client.destroy();
    proxy.close();
    server.close();
    expect(received.length).toBeGreaterThan((changes * slowMs) / byteIntervalMs);
    expect(received).toEqual(received.map((_, place) => place % 256));
  });
});
