import type { Socket } from "node:net";

/** The first bytes of an HTTP/2 connection without TLS (RFC 9113, 3.4), as many as identify it. */
const prefaceHead = Buffer.from("PRI");

/**
 * Reads enough of a new connection to tell HTTP/2 from HTTP/1, and puts it back. Reports the version and what was read.
 * A connection that sends nothing for `timeoutMs` is closed.
 */
export function peekPreface(socket: Socket, timeoutMs: number, decided: (http2: boolean, held: Buffer) => void): void {
  let held: Buffer = Buffer.alloc(0);
  const stop = (): void => {
    socket.off("readable", peek);
    socket.off("end", cut);
    socket.off("timeout", cut);
    socket.off("error", cut);
    socket.setTimeout(0);
  };
  const cut = (): void => {
    stop();
    socket.on("error", () => {});
    socket.destroy();
  };
  const peek = (): void => {
    const chunk: Buffer | null = socket.read();
    if (chunk === null) return;
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    const compared = Math.min(held.length, prefaceHead.length);
    const matches = held.compare(prefaceHead, 0, compared, 0, compared) === 0;
    if (matches && compared < prefaceHead.length) return;
    stop();
    socket.unshift(held);
    decided(matches, held);
  };
  socket.on("readable", peek);
  socket.on("end", cut);
  socket.on("timeout", cut);
  socket.on("error", cut);
  socket.setTimeout(timeoutMs);
}
