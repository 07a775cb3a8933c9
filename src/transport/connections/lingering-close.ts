import type { Socket } from "node:net";

const discard = (): void => {};

/**
 * Ends a connection so that its peer receives everything that was written (RFC 9112, 9.6). Sends `lastBytes` and a FIN,
 * and discards incoming data until the peer closes too. Closing a socket with unread data would send a reset, which can
 * discard a response that the peer has not read. The connection is closed `lingerMs` after the last byte was written.
 */
export function closeLingering(socket: Socket, lingerMs: number, lastBytes?: Uint8Array): void {
  socket.removeAllListeners("data");
  socket.on("data", discard);
  // For a peer that does not take the last bytes (stalled-sockets.ts). An upgraded socket has no listener of Node's.
  socket.once("timeout", () => socket.destroy());
  socket.resume();
  if (lastBytes === undefined) socket.end();
  else socket.end(lastBytes);
  const cutLater = (): void => {
    const cut = setTimeout(() => socket.destroy(), lingerMs);
    socket.once("close", () => clearTimeout(cut));
  };
  if (socket.writableFinished) cutLater();
  else socket.once("finish", cutLater);
}
