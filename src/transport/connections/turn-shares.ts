import { type OpenCall, whenLoopTurned } from "../call/loop-turn.js";

/** Streams that are served in one turn of the event loop: up to some tens of milliseconds. The others wait. */
export const streamsPerTurnMax = 256;

/** Streams that a connection may have served in one turn, when it is alone. */
export const streamsOfConnectionMax = 128;

/** Streams that a connection may have served in one turn, however many connections there are. */
export const streamsOfConnectionMin = 8;

/** Shares each turn of the event loop among the connections that open streams, so that none starves the others. */
export class TurnShares implements OpenCall {
  /** Streams of one connection, by how many connections the last turn had. */
  #share = streamsOfConnectionMax;
  #connections = 0;
  #streams = 0;

  /** Whether a connection that was served `served` streams in this turn may have one more served; counts it. */
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
