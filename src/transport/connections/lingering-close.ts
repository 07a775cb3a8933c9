import type { Socket } from "node:net";

const discard = (): void => {};

/**
 * Ends a connection so that its peer receives all that was written (RFC 9112, 9.6): sends `lastBytes` and a FIN, and
 * discards what still arrives until the peer closes too. A socket that is closed with unread bytes would send a reset,
 * which can take a response back that the peer has not read yet. Cut `lingerMs` after the last byte was written.
 */
export function closeLingering(socket: Socket, lingerMs: number, lastBytes?: Uint8Array): void {
  socket.removeAllListeners("data");
  socket.on("data", discard);
  // Of a peer that does not take the last bytes (stalled-sockets.ts); an upgraded socket has no listener of Node's.
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
