import type { Excuse } from "./scoreboard.js";

/** One kind of fault, and how it ends. */
export interface Fault {
  readonly name: string;
  /** What it may do to callers until everything is right again. */
  readonly excuses: readonly Excuse[];
  /** How long it lasts, in milliseconds, at least and at most; of a run of a minute. */
  readonly holdMs: readonly [number, number];
  /** How soon after its end everything must be right, in milliseconds; undefined: as soon as after most faults. */
  readonly recoveryMaxMs?: number;
  inject(): Promise<void> | void;
  /** Resolves when the fault is over: from then on the seconds to recover count. */
  heal(): Promise<void> | void;
  /** What must be so beside the readers' responses before the fault counts as recovered from. */
  isWell?(): Promise<boolean> | boolean;
  /** Puts things back that the fault needed, once everything is right again, or given up. */
  restore?(): Promise<void> | void;
}

/** Over as soon as it has happened: what was killed is started again by its manager. */
export const momentary = [0, 0] as const;
export const brief = [300, 900] as const;
