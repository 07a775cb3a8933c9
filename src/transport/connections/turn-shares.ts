import { type Begun, whenLoopTurned } from "../grpc/loop-turn.js";

/** Streams that are served in one turn of the event loop: up to some tens of milliseconds. The others wait. */
export const streamsPerTurnMax = 256;

/** Streams that a connection may have served in one turn, however many connections there are. */
export const streamsPerTurnMin = 8;

/** Shares each turn of the event loop among the connections that open streams, so that none starves the others. */
export class TurnShares implements Begun {
  /** Streams of one connection, by how many connections the last turn had. */
  #share = streamsPerTurnMax;
  #connections = 0;
  #streams = 0;

  /** Whether a connection that was served `served` streams in this turn may have one more served; counts it. */
  take(served: number): boolean {
    if (served >= this.#share || (served >= streamsPerTurnMin && this.#streams >= streamsPerTurnMax)) return false;
    if (this.#streams++ === 0) whenLoopTurned(this);
    if (served === 0) this.#connections++;
    return true;
  }

  loopTurned(): void {
    this.#share = Math.max(streamsPerTurnMin, Math.floor(streamsPerTurnMax / this.#connections));
    this.#connections = 0;
    this.#streams = 0;
  }
}
