import type { Random } from "../../src/simulator/random.js";
import type { Tally } from "./tally.js";
import type { Target } from "./target.js";

/** What an attack is given for a round. */
export interface Round {
  readonly target: Target;
  readonly random: Random;
  readonly tally: Tally;
  /** `performance.now()` at which the round should end. */
  readonly until: number;
  /** Connections that the round opens at least; an attack with `minSeconds` opens so many at once. */
  readonly connections: number;
}

/** One way to harm the service. */
export interface Attack {
  readonly name: string;
  /** What the service must do, for the report. */
  readonly expects: string;
  /** Seconds that a round takes at least, where it must wait for a limit of the service; default 0. */
  readonly minSeconds?: number;
  /** How its connections are shared between the workers decides how much memory they take; it is judged elsewhere. */
  readonly isMemoryUneven?: boolean;
  /** Runs a round, and closes all that it opened. It records in `tally` what must not have happened. */
  run(round: Round): Promise<void>;
}

/** Runs `work`, which opens a connection, in `width` parallel loops until the round ends and has opened enough. */
export async function inParallel(round: Round, width: number, work: (n: number) => Promise<void>): Promise<void> {
  const loop = async (n: number): Promise<void> => {
    do await work(n);
    while ((performance.now() < round.until || round.tally.connections < round.connections) && round.target.alive);
  };
  await Promise.all(Array.from({ length: width }, (_, n) => loop(n)));
}
