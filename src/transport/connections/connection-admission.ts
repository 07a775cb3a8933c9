import { constants } from "node:http2";
import type { Socket } from "node:net";
import { quotaKey } from "../../domain/client-address.js";
import { Failure, unavailable } from "../../domain/failure.js";
import { exceededSecondsMax, RateLimit } from "../../domain/rate-limit.js";
import type { TransportLimits } from "../options.js";
import { drainFailure } from "../stream-guard.js";
import type { PortOptions } from "./exchange.js";
import { closeLingering, peekPreface, rawErrorResponse } from "./raw-sockets.js";

/**
 * A cancellation within this time after the start of the call is early. Later ones are not counted: the limit on open
 * streams bounds them to about 200 calls a second. Seconds, because a busy process sees cancellations late.
 */
export const earlyCancelMs = 5_000;

/** Clients that are tracked. Beyond it, the one whose last cancellation is oldest is dropped. */
export const cancellingClientsMax = 8_192;

/** Retry delay for a client that cancelled too many calls. It is certain to be admitted then. */
const cancelRetryMs = exceededSecondsMax * 1_000;

/** Retry delay for a client whose connection was refused because there are too many, of it or of all. */
const connectionRetryMs = 5_000;

/** Why connections are refused. Made once each: thousands of connections per second may be refused. */
export const connectionRefusals = {
  TOO_MANY_CONNECTIONS: unavailable(
    "this server has as many connections as it can; try again",
    "TOO_MANY_CONNECTIONS",
    connectionRetryMs,
  ),
  TOO_MANY_CONNECTIONS_OF_CLIENT: new Failure(
    "resource_exhausted",
    "this client has as many connections open as one address may; close some",
    { reason: "TOO_MANY_CONNECTIONS_OF_CLIENT", retryAfterMs: connectionRetryMs },
  ),
  TOO_MANY_CANCELLED_CALLS: new Failure(
    "resource_exhausted",
    "this client cancels calls, or sends header fields, faster than one address may; keep calls open, or ask less often",
    { reason: "TOO_MANY_CANCELLED_CALLS", retryAfterMs: cancelRetryMs },
  ),
};

type RefusalReason = keyof typeof connectionRefusals;

/** Of a connection that waits for a worker while the server shuts down. */
export const drainRefusal = drainFailure();

/**
 * Counts each client's early cancellations over all its connections. A cancelled call costs as much as a response and
 * frees its stream at once, so the limit on streams does not bound such calls. The quota key identifies the client.
 */
export class CancelledCalls {
  /** By client, in order of their last cancellation. */
  readonly #byClient = new Map<string, RateLimit>();

  constructor(private readonly limits: Pick<TransportLimits, "cancelledCallBurstMax" | "cancelledCallsPerSecondMax">) {}

  /** The number of tracked clients. */
  get size(): number {
    return this.#byClient.size;
  }

  /** Counts an early cancellation, or `amount` of one. False: the client is beyond the limit. */
  allows(client: string, amount = 1): boolean {
    const { cancelledCallBurstMax, cancelledCallsPerSecondMax } = this.limits;
    const limit = this.#byClient.get(client) ?? new RateLimit(cancelledCallBurstMax, cancelledCallsPerSecondMax);
    this.#byClient.delete(client);
    this.#byClient.set(client, limit);
    const [oldest] = this.#byClient.keys();
    if (oldest !== undefined && this.#byClient.size > cancellingClientsMax) this.#byClient.delete(oldest);
    return limit.allows(amount);
  }

  /** How much the client has used of what it may cancel at once; see {@link RateLimit.usedShare}. */
  usedShareOf(client: string): number {
    return this.#byClient.get(client)?.usedShare ?? 0;
  }

  /** Whether the client is beyond the limit and must wait, at most {@link exceededSecondsMax}. */
  exceededBy(client: string): boolean {
    return this.#byClient.get(client)?.exceeded === true;
  }
}

/**
 * Refused connections that are given a reason at one time. Beyond it they are closed, so that they hold few
 * descriptors.
 */
const refusalsMax = 32;

/**
 * Counts connections, in all and by client address. Refuses those above the limits, and those of clients that cancel
 * too many calls: HTTP/1.1 with 503 or 429, HTTP/2 with GOAWAY and ENHANCE_YOUR_CALM. Connections of trusted proxies
 * count in all only.
 */
export class ConnectionAdmission {
  readonly #open = new Set<Socket>();
  readonly #refusing = new Set<Socket>();
  readonly #byClient = new Map<string, number>();
  #onClosed = (): void => {};
  /** Connections refused since the start. */
  readonly refused = new Map<string, number>(Object.keys(connectionRefusals).map((reason) => [reason, 0]));

  constructor(
    private readonly options: PortOptions,
    private readonly cancelled: CancelledCalls,
  ) {}

  /** Connections that are open now. */
  get size(): number {
    return this.#open.size;
  }

  /** Counts a new connection until it closes. False: it was refused, and the caller must not use it. */
  admit(socket: Socket): boolean {
    const { limits, clients } = this.options;
    const address = socket.remoteAddress ?? "";
    const client = clients.isProxy(address) ? undefined : quotaKey(address);
    if (this.#open.size >= limits.connectionsMax) {
      this.#refuse(socket, "TOO_MANY_CONNECTIONS");
      return false;
    }
    const ofClient = client === undefined ? 0 : (this.#byClient.get(client) ?? 0);
    if (limits.connectionsPerAddressMax > 0 && ofClient >= limits.connectionsPerAddressMax) {
      this.#refuse(socket, "TOO_MANY_CONNECTIONS_OF_CLIENT");
      return false;
    }
    if (client !== undefined && this.cancelled.exceededBy(client)) {
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
    this.refused.set(reason, (this.refused.get(reason) ?? 0) + 1);
    // With TLS, a reason would need a handshake.
    if (this.options.tls !== undefined || this.#refusing.size >= refusalsMax) {
      socket.destroy();
      return;
    }
    this.#refusing.add(socket);
    socket.once("close", () => this.#refusing.delete(socket));
    refuseConnection(socket, connectionRefusals[reason]);
  }
}

/** How long a refused client may take to reveal its protocol, and then to read the reason. */
const refusalMs = 1_000;

/**
 * Refuses a connection without TLS, with a reason: HTTP/1.1 gets 503 or 429, HTTP/2 gets GOAWAY, with ENHANCE_YOUR_CALM
 * where there are too many. The client has up to a second each to speak, to take the bytes, and to close.
 */
export function refuseConnection(socket: Socket, refusal: Failure): void {
  peekPreface(socket, refusalMs, (http2) => {
    socket.on("error", ignore);
    socket.setTimeout(refusalMs);
    // Nothing was read, so the origin of the page that asks is not known.
    const common = ["access-control-allow-origin", "*"];
    const code = refusal === drainRefusal ? constants.NGHTTP2_NO_ERROR : constants.NGHTTP2_ENHANCE_YOUR_CALM;
    closeLingering(socket, refusalMs, http2 ? goAway(code) : rawErrorResponse(refusal, common));
  });
}

/** The peer may disconnect meanwhile. */
function ignore(): void {}

/** An empty SETTINGS frame, the first of every HTTP/2 server, and GOAWAY (RFC 9113, 6.5 and 6.8). */
function goAway(code: number): Buffer {
  const settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
  return Buffer.from([...settings, ...[0, 0, 8, 7, 0, 0, 0, 0, 0], ...[0, 0, 0, 0], ...[0, 0, 0, code]]);
}
