import { type Begun, whenLoopTurned } from "../grpc/loop-turn.js";

/** Streams that a connection may have served in one turn of the event loop, when it is alone; the others wait. */
export const streamsPerTurnMax = 128;

/** Streams that a connection may have served in one turn, however many connections there are. */
export const streamsPerTurnMin = 16;

/** Streams of all connections that are served in one turn: some tens of milliseconds. */
export const streamsInTurnMax = 512;

/** Shares each turn of the event loop among the connections that open streams, so that none starves the others. */
export class TurnShares implements Begun {
  #share = streamsPerTurnMax;
  #connections = 0;

  /** Streams of one connection that may be served in this turn; by how many connections the last turn had. */
  get share(): number {
    return this.#share;
  }

  /** A connection serves its first stream of this turn. */
  join(): void {
    if (++this.#connections === 1) whenLoopTurned(this);
  }

  loopTurned(): void {
    const share = Math.floor(streamsInTurnMax / this.#connections);
    this.#share = Math.min(streamsPerTurnMax, Math.max(streamsPerTurnMin, share));
    this.#connections = 0;
  }
}
