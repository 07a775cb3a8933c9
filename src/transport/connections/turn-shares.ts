import { type OpenCall, whenLoopTurned } from "../call/loop-turn.js";

/** Streams served in one turn of the event loop, which takes up to some tens of milliseconds. The rest wait. */
export const streamsPerTurnMax = 256;

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

  /** Counts one more stream of a connection that had `served` in this turn. False: it must wait. */
  take(served: number): boolean {
    if (served >= this.#share || (served >= streamsOfConnectionMin && this.#streams >= streamsPerTurnMax)) return false;
    if (this.#streams++ === 0) whenLoopTurned(this);
    if (served === 0) this.#connections++;
    return true;
  }

  loopTurned(): void {
    const share = Math.floor(streamsPerTurnMax / this.#connections);
    this.#share = Math.min(streamsOfConnectionMax, Math.max(streamsOfConnectionMin, share));
    this.#connections = 0;
    this.#streams = 0;
  }
}
