import { setTimeout as delay } from "node:timers/promises";
import { slowness } from "../support/slowness.js";
import type { Fault } from "./fault.js";
import { startLedgerReaders } from "./ledger-readers.js";
import { startLibraryReaders } from "./library-readers.js";
import { startPastReaders } from "./past-readers.js";
import type { Readers } from "./reader.js";
import { awaitRecovery, givenUpMs, isInTime } from "./recovery.js";
import { allExcuses, recoveryMaxMs, type Scoreboard } from "./scoreboard.js";
import { startStreamReaders } from "./stream-readers.js";
import type { TestedService } from "./tested-service.js";
import { startUnaryReaders } from "./unary-readers.js";

/** Faults last longer in longer runs, up to so many times. */
const longestHold = 5;
/** A run of so many seconds tries each fault about once. */
export const secondsForAll = 60;
/** The calm between two faults. */
const pauseMs = 200;
/** How long all readers may take to be right after a start by hand. */
const everyoneMaxMs = 60_000;
/** How long readers may take to end. */
const readersEndMaxMs = 5_000;
const honestErrorsShown = 25;

/** Passes a world to `use`, and closes it afterwards, or on a signal that ends the harness. */
export async function withWorld<W extends TestedService>(world: W, use: (world: W) => Promise<void>): Promise<void> {
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => void world.close().finally(() => process.exit(130)));
  }
  try {
    await use(world);
  } finally {
    await world.close();
  }
}

/** One fault after the other, while readers on every protocol ask and every response is judged. */
export class FaultRun {
  readonly #stop = new AbortController();
  #loops: Promise<void>[] = [];

  constructor(
    private readonly world: TestedService,
    private readonly scoreboard: Scoreboard,
  ) {}

  /** Aborted when the readers end. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Starts all readers; resolves when each has had a right response. */
  async startReaders(): Promise<void> {
    const { world, scoreboard } = this;
    const { port, judge, random } = world;
    const readers: Readers = { port, judge, scoreboard, random, signal: this.signal };
    const start = scoreboard.inject("no fault", allExcuses);
    this.#loops = [
      ...startUnaryReaders(readers),
      ...startLedgerReaders(readers, () => world.exportBurst),
      ...startStreamReaders(readers),
      ...startLibraryReaders(readers),
      ...startPastReaders(readers),
    ];
    await this.#everyoneIsRight();
    scoreboard.close(start, 0);
  }

  /** All scenarios once, in random order, and on until the run's time is over. The faults of one keep their order. */
  async suffer(scenarios: readonly (readonly Fault[])[]): Promise<void> {
    const { random, settings } = this.world;
    const until = performance.now() + settings.seconds * 1_000;
    for (let round = 0; round === 0 || performance.now() < until; round++) {
      for (const scenario of random.shuffled(scenarios)) {
        if (round > 0 && performance.now() > until) break;
        for (const fault of scenario) await this.#suffer(fault);
      }
    }
  }

  /** Ends the readers, and compares what is in the databases with an undisturbed load. */
  async end(): Promise<void> {
    this.#stop.abort();
    await Promise.race([Promise.all(this.#loops), delay(readersEndMaxMs)]);
    const differences = await this.world.compareWithUndisturbed();
    const holds = differences.length === 0;
    this.world.report.check("the databases equal an undisturbed load, row for row", holds, differences.join("; "));
  }

  /** Prints the most frequent honest errors and the table, and checks that there was no wrong response. */
  summarise(faults: readonly Fault[]): void {
    const { report } = this.world;
    const rows = [...this.scoreboard.rows.values()];
    const tried = faults.every(({ name }) => (this.scoreboard.rows.get(name)?.times ?? 0) > 0);
    report.check("every fault was tried", tried);
    for (const { name, wrong, firstWrong } of rows)
      report.check(`${name}: no wrong response`, wrong === 0, `${wrong} wrong responses, the first one ${firstWrong}`);
    for (const line of this.scoreboard.honestErrors().slice(0, honestErrorsShown)) report.say(line);
    report.table([
      ["fault", "times", "right responses", "honest errors", "wrong responses", "seconds to recover"],
      ...rows.map(({ name, times, right, honest, wrong, recoverySeconds }) => {
        const recovered = recoverySeconds === undefined ? "-" : recoverySeconds.toFixed(1).replace("Infinity", "never");
        return [name, times, right, honest, wrong, recovered];
      }),
    ]);
  }

  /** One fault from its injection until everything is right again. */
  async #suffer(fault: Fault): Promise<void> {
    await delay(pauseMs);
    const { world, scoreboard } = this;
    const { report, random } = world;
    const maxMs = fault.recoveryMaxMs === undefined ? recoveryMaxMs : fault.recoveryMaxMs * slowness;
    const episode = scoreboard.inject(fault.name, fault.excuses, maxMs);
    world.unexpectedEnds.length = 0;
    try {
      await fault.inject();
      await delay(random.between(fault.holdMs[0], fault.holdMs[1] * this.#holdFactor()));
      await fault.heal();
    } catch (error) {
      report.check(`${fault.name}: could be tried`, false, String(error));
    }
    scoreboard.heal(episode);
    const recovery = await awaitRecovery(world, scoreboard, episode, fault);
    scoreboard.close(episode, recovery.seconds);
    const { seconds } = recovery;
    const took = seconds === undefined ? `not within ${Math.round(givenUpMs / 1_000)} s` : `${seconds.toFixed(1)} s`;
    report.say(`${new Date().toISOString().slice(11, 19)} ${fault.name}: ${took}`);
    const missing = recovery.missing.slice(0, 4).join(", ");
    const inTime = isInTime(recovery, maxMs);
    report.check(`${fault.name}: right again within ${(maxMs / 1_000).toFixed(1)} s`, inTime, `${took} ${missing}`);
    report.check(`${fault.name}: no process ends by itself`, world.unexpectedEnds.length === 0, () =>
      [...new Set(world.unexpectedEnds)].join("; "),
    );
    await fault.restore?.();
    if (seconds === undefined) await this.#help();
  }

  /** What an operator does when nothing else helps, so that the next fault finds everything in order. */
  async #help(): Promise<void> {
    const { world, scoreboard } = this;
    const { report } = world;
    report.say("starting everything again");
    const episode = scoreboard.inject("started again by hand", allExcuses);
    await Promise.all([world.service.stop(3_000), world.loader.stop(2_000)]);
    // A database that is not there has no sessions.
    await world.endSessions().catch((error: unknown) => report.say(`sessions: ${String(error)}`));
    world.service.start();
    world.loader.start();
    scoreboard.heal(episode);
    await this.#everyoneIsRight();
    scoreboard.close(episode, 0);
  }

  #everyoneIsRight(): Promise<boolean> {
    return this.world.within(everyoneMaxMs, () => this.scoreboard.allRight);
  }

  #holdFactor(): number {
    return Math.min(longestHold, Math.max(1, this.world.settings.seconds / secondsForAll));
  }
}

/** The faults that `--faults` names by parts of their names, or all. @throws Error when there is none of such a name */
export function chosenScenarios(
  all: readonly (readonly Fault[])[],
  wanted: string | undefined,
): readonly (readonly Fault[])[] {
  if (wanted === undefined) return all;
  const parts = wanted.split(",").map((part) => part.trim());
  const chosen = all.filter((faults) => faults.some(({ name }) => parts.some((part) => name.includes(part))));
  if (chosen.length > 0) return chosen;
  throw new Error(`--faults: none of ${all.flatMap((faults) => faults.map(({ name }) => `"${name}"`)).join(", ")}`);
}
