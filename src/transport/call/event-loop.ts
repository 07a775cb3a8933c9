import { ClientQuota, heldRetryMs } from "../../domain/client-quota.js";
import { Failure, unavailable } from "../../domain/failure.js";
import { OwnerQueue } from "../../domain/owner-queue.js";
import { WorkPacer } from "../../domain/work-pacer.js";

/** A callback for calls that are still open on the next turn of the event loop. */
export interface OpenCall {
  loopTurned(): void;
}

let opened: OpenCall[] = [];

/** Notifies a call when the loop has turned. Most calls end within one read of a socket, and need no timer. */
export function whenLoopTurned(call: OpenCall): void {
  if (opened.push(call) === 1) setImmediate(turn);
}

function turn(): void {
  const calls = opened;
  opened = [];
  for (const call of calls) call.loopTurned();
}

/** Streams served in one turn of the event loop, which takes up to some tens of milliseconds. The rest wait. */
export const streamsPerTurnMax = 256;

/** Time after which the rest of a turn's streams, or of its messages, waits: cold code takes a millisecond each. */
const servingPerTurnMaxMs = 15;

/** Streams that a connection may have served in one turn when it is alone. */
export const streamsOfConnectionMax = 128;

/** Streams that a connection may have served in one turn, regardless of other connections. */
export const streamsOfConnectionMin = 8;

/** Divides each turn of the event loop among the connections that open streams. */
export class TurnShares implements OpenCall {
  /** Streams per connection, given the number of connections of the last turn. */
  #share = streamsOfConnectionMax;
  #connections = 0;
  #streams = 0;
  #sinceMs = 0;

  /** Counts one more stream of a connection that had `served` in this turn. False: it must wait. */
  take(served: number): boolean {
    if (served >= this.#share || (served >= streamsOfConnectionMin && this.#isSpent())) return false;
    if (this.#streams++ === 0) {
      this.#sinceMs = performance.now();
      whenLoopTurned(this);
    }
    if (served === 0) this.#connections++;
    return true;
  }

  #isSpent(): boolean {
    return this.#streams >= streamsPerTurnMax || performance.now() - this.#sinceMs > servingPerTurnMaxMs;
  }

  loopTurned(): void {
    const share = Math.floor(streamsPerTurnMax / this.#connections);
    this.#share = Math.min(streamsOfConnectionMax, Math.max(streamsOfConnectionMin, share));
    this.#connections = 0;
    this.#streams = 0;
  }
}

/**
 * Request messages of one turn of the event loop: a packet may end a hundred streams, whose messages take milliseconds
 * each. Beyond the turn's time they wait, with turns between client addresses.
 */
class MessageTurns implements OpenCall {
  readonly #waiting = new OwnerQueue<() => void>();
  #isOpen = false;
  #sinceMs = 0;

  /** Whether one more may be read at once. */
  get isFree(): boolean {
    return this.#waiting.owners === 0 && this.#hasTime();
  }

  /** Calls `go` in a later turn. @returns what drops it while it waits */
  wait(go: () => void, owner: string): () => void {
    this.#waiting.push(owner, go);
    return () => this.#waiting.drop(owner, go);
  }

  loopTurned(): void {
    this.#isOpen = false;
    while (this.#waiting.owners > 0 && this.#hasTime()) this.#waiting.shift()?.();
  }

  #hasTime(): boolean {
    if (this.#isOpen) return performance.now() - this.#sinceMs < servingPerTurnMaxMs;
    this.#isOpen = true;
    this.#sinceMs = performance.now();
    whenLoopTurned(this);
    return true;
  }
}

export const messageTurns = new MessageTurns();

/** Serves requests of streams in turn, with turns between client addresses. Each takes up to half a millisecond. */
export const streamedRequests = new WorkPacer();

/** Request messages above this size are decoded one at a time: JSON of a megabyte can take 0.2 s. */
export const largeMessageBytesMin = 16_384;

/** Large messages of one client address that wait to be decoded; beyond it RESOURCE_EXHAUSTED. */
export const largeMessagesPerClientMax = 64;

/** Decodes large messages in turn, with turns between client addresses. Other work of the process runs in between. */
export const largeMessages = new WorkPacer();

/** Requests of one client address that are held while they arrive, or wait for their turn or a reader, in bytes. */
export const requestBytesPerClientMax = 33_554_432;

/** The same of all clients of a process, in bytes. */
export const requestBytesMax = 268_435_456;

/** Counts requests that are held. */
export const heldRequests = new ClientQuota({
  ofClientMax: requestBytesPerClientMax,
  inAllMax: requestBytesMax,
  ofClient: tooManyOfClient,
  inAll: () => unavailable("this server holds as many requests as it can", "TOO_MANY_REQUESTS_HELD", heldRetryMs),
});

/** RESOURCE_EXHAUSTED: a client has sent more than it may before it has responses. */
export function tooManyOfClient(): Failure {
  const message = "this client has sent as many large requests as one may at once; wait for responses to some of them";
  return new Failure("resource_exhausted", message, { reason: "TOO_MANY_REQUESTS", retryAfterMs: heldRetryMs });
}
