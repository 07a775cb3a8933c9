import { connect, type Socket } from "node:net";
import type { DatabaseAddress } from "./database-url.js";

/**
 * Opens a socket of our own for a connection of the driver (its option `stream`). The driver only half-closes a socket,
 * and so would wait for ever for a peer that is dead.
 */
export function openSocket({ socketPath, host, port }: DatabaseAddress): Socket {
  return socketPath === undefined ? connect({ port, host, noDelay: true, keepAlive: true }) : connect(socketPath);
}

/** What a connection fails with that is given up because its peer is silent. */
export function silentPeerError(message: string): Error {
  return Object.assign(new Error(message), { code: "ETIMEDOUT", fatal: true });
}
