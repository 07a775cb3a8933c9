import { connect, type Socket } from "node:net";
import type { DatabaseAddress } from "./database-url.js";

/**
 * Opens the socket of a driver connection (its option `stream`). The driver only half-closes a socket, and would wait
 * forever for a dead peer.
 */
export function openSocket({ socketPath, host, port }: DatabaseAddress): Socket {
  return socketPath === undefined ? connect({ port, host, noDelay: true, keepAlive: true }) : connect(socketPath);
}

/** The error of a connection that was closed because its peer was silent. */
export function silentPeerError(message: string): Error {
  return Object.assign(new Error(message), { code: "ETIMEDOUT", fatal: true });
}
