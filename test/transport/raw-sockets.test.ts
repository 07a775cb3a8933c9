import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { closeLingering } from "../../src/transport/connections/raw-sockets.js";

test("a connection that ends sends its last bytes, and does not read all that its client goes on sending", async () => {
  const accepted: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    accepted.push(socket);
    socket.on("error", () => {});
    closeLingering(socket, 300, Buffer.from("last"));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const client = connect({ port: (server.address() as AddressInfo).port, host: "127.0.0.1", allowHalfOpen: true });
  client.on("error", () => {});
  let received = "";
  client.on("data", (chunk: Buffer) => (received += String(chunk)));
  client.write(Buffer.alloc(16 * 2 ** 20));
  await expect.poll(() => client.destroyed).toBe(true);
  expect(received).toBe("last");
  expect(accepted[0]?.bytesRead).toBeGreaterThan(64 * 1024);
  expect(accepted[0]?.bytesRead).toBeLessThan(256 * 1024);
  server.close();
});
