import type { Socket } from "node:net";
import { quotaKey } from "../../domain/client-address.js";
import type { ClientAddresses } from "../client-addresses.js";
import type { TransportLimits } from "../limits.js";
import type { CancelledCalls } from "./cancelled-calls.js";
import { type RefusalReason, refuseConnection } from "./refuse-connection.js";

/**
 * Refused connections that are given a reason at one time. Beyond it they are closed, so that they hold few
 * descriptors.
 */
const refusalsMax = 32;

/** Options of {@link ConnectionAdmission}. */
export interface ConnectionAdmissionOptions {
  readonly limits: TransportLimits;
  readonly clients: ClientAddresses;
  readonly cancelled: CancelledCalls;
  /** With TLS, refused connections are closed: a reason would need a handshake. */
  readonly encrypted: boolean;
}

/**
 * Counts connections, in all and by client address. Refuses those above the limits, and those of clients that cancel
 * too many calls: HTTP/1.1 with 503 or 429, HTTP/2 with GOAWAY and ENHANCE_YOUR_CALM. Connections of trusted proxies
 * count in all only.
 */
export class ConnectionAdmission {
  readonly #options: ConnectionAdmissionOptions;
  readonly #open = new Set<Socket>();
  readonly #refusing = new Set<Socket>();
  readonly #byClient = new Map<string, number>();
  #onClosed = (): void => {};
  readonly #refused = new Map<RefusalReason, number>();

  constructor(options: ConnectionAdmissionOptions) {
    this.#options = options;
  }

  /** Connections that are open now. */
  get size(): number {
    return this.#open.size;
  }

  /** Connections refused since the start. */
  refused(reason: RefusalReason): number {
    return this.#refused.get(reason) ?? 0;
  }

  /** Counts a new connection until it closes. False: it was refused, and the caller must not use it. */
  admit(socket: Socket): boolean {
    const { limits, clients, cancelled } = this.#options;
    const address = socket.remoteAddress ?? "";
    const client = clients.isProxy(address) ? undefined : quotaKey(clients.of(address, undefined));
    if (this.#open.size >= limits.connectionsMax) {
      this.#refuse(socket, "TOO_MANY_CONNECTIONS");
      return false;
    }
    const ofClient = client === undefined ? 0 : (this.#byClient.get(client) ?? 0);
    if (limits.connectionsPerAddressMax > 0 && ofClient >= limits.connectionsPerAddressMax) {
      this.#refuse(socket, "TOO_MANY_CONNECTIONS_OF_CLIENT");
      return false;
    }
    if (client !== undefined && cancelled.exceededBy(client)) {
      this.#refuse(socket, "TOO_MANY_CANCELLED_CALLS");
      return false;
    }
    this.#open.add(socket);
    if (client !== undefined) this.#byClient.set(client, ofClient + 1);
    socket.once("close", () => {
      this.#open.delete(socket);
      this.#onClosed();
      if (client === undefined) return;
      const left = (this.#byClient.get(client) ?? 1) - 1;
      if (left === 0) this.#byClient.delete(client);
      else this.#byClient.set(client, left);
    });
    return true;
  }

  /** Resolves when no connection is open. For a single caller. */
  allClosed(): Promise<void> {
    return new Promise((resolve) => {
      this.#onClosed = () => {
        if (this.#open.size === 0) resolve();
      };
      this.#onClosed();
    });
  }

  /** Closes every connection at once. */
  cut(): void {
    for (const socket of [...this.#open, ...this.#refusing]) socket.destroy();
  }

  #refuse(socket: Socket, reason: RefusalReason): void {
    this.#refused.set(reason, this.refused(reason) + 1);
    if (this.#options.encrypted || this.#refusing.size >= refusalsMax) {
      socket.destroy();
      return;
    }
    this.#refusing.add(socket);
    socket.once("close", () => this.#refusing.delete(socket));
    refuseConnection(socket, reason);
  }
}
