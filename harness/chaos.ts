import { setTimeout as delay } from "node:timers/promises";
import { databaseFaults } from "./chaos/database-faults.js";
import { descriptorsExhausted } from "./chaos/descriptors-fault.js";
import type { Fault } from "./chaos/fault.js";
import { startLedgerReaders } from "./chaos/ledger-readers.js";
import { deadLoaderPeer, processFaults } from "./chaos/process-faults.js";
import { RandomSource } from "./chaos/random-source.js";
import type { Readers } from "./chaos/reader.js";
import { awaitRecovery, givenUpMs, isInTime } from "./chaos/recovery.js";
import { allExcuses, recoveryMaxMs, Scoreboard } from "./chaos/scoreboard.js";
import { SteppingClock } from "./chaos/stepping-clock.js";
import { startStreamReaders } from "./chaos/stream-readers.js";
import { startUnaryReaders } from "./chaos/unary-readers.js";
import { World } from "./chaos/world.js";
import { Report } from "./support/report.js";
import { readSettings } from "./support/settings.js";

/**
 * npm run chaos -- [--seconds S] [--seed N] [--program PATH] [--faults NAME,…]
 *
 * Readers on every protocol, and a loader, while one fault after the other is injected and healed. Every answer is held
 * against an independent fold of the network's events (docs/reliability.md). It ends with `N passed, N failed`.
 */

/** Faults last longer in longer runs, up to so many times. */
const longestHold = 5;
/** A run of so many seconds tries each fault about once. */
const secondsForAll = 60;
/** The calm between two faults. */
const pauseMs = 200;
/** How long all readers may take to be right after a start by hand. */
const everyoneMaxMs = 60_000;
const honestErrorsShown = 25;

const settings = readSettings("chaos", secondsForAll, ["faults"]);
const report = new Report();
const random = new RandomSource(settings.seed);
const scoreboard = new Scoreboard(report);
report.say(`seed ${settings.seed}; ${settings.program}`);
const world = await World.create(settings, report, random, scoreboard);
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void world.close().finally(() => process.exit(130)));
}
try {
  await run();
} finally {
  await world.close();
}
report.finish();
// Connections that a client's library holds on to.
setTimeout(() => process.exit(), 1_000).unref();

async function run(): Promise<void> {
  const stop = new AbortController();
  const readers: Readers = { port: world.port, judge: world.judge, scoreboard, random, signal: stop.signal };
  const start = scoreboard.inject("no fault", allExcuses);
  const loops = [
    ...startUnaryReaders(readers),
    ...startLedgerReaders(readers, () => world.crowd),
    ...startStreamReaders(readers),
  ];
  await everyoneIsRight();
  scoreboard.close(start, 0);
  const steppingClock = watchesClock() ? SteppingClock.start(world, stop.signal) : undefined;
  const faults = chosenFaults();
  const until = performance.now() + settings.seconds * 1_000;
  for (let round = 0; round === 0 || performance.now() < until; round++) {
    for (const fault of random.shuffled(faults)) {
      if (round > 0 && performance.now() > until) break;
      await suffer(fault);
    }
  }
  await steppingClock?.end();
  stop.abort();
  await Promise.race([Promise.all(loops), delay(5_000)]);
  const differences = await world.compareWithUndisturbed();
  report.check(
    "the databases equal an undisturbed load, row for row",
    differences.length === 0,
    differences.join("; "),
  );
  if (steppingClock !== undefined) scoreboard.adopt(steppingClock.scoreboard);
  summarise(faults);
}

function watchesClock(): boolean {
  return settings.more["faults"]?.includes("clock") ?? true;
}

function chosenFaults(): Fault[] {
  const all = [...processFaults(world), deadLoaderPeer(world), ...databaseFaults(world), descriptorsExhausted(world)];
  const wanted = settings.more["faults"];
  if (wanted === undefined) return all;
  const chosen = all.filter(({ name }) => wanted.split(",").some((part) => name.includes(part.trim())));
  if (chosen.length === 0) throw new Error(`--faults: none of ${all.map(({ name }) => `"${name}"`).join(", ")}`);
  return chosen;
}

/** One fault from its injection until everything is right again. */
async function suffer(fault: Fault): Promise<void> {
  await delay(pauseMs);
  const episode = scoreboard.inject(fault.name, fault.excuses);
  world.unexpectedEnds.length = 0;
  try {
    await fault.inject();
    await delay(random.between(fault.holdMs[0], fault.holdMs[1] * holdFactor()));
    await fault.heal();
  } catch (error) {
    report.check(`${fault.name}: could be tried`, false, String(error));
  }
  scoreboard.heal(episode);
  const recovery = await awaitRecovery(world, scoreboard, episode, fault);
  scoreboard.close(episode, recovery.seconds);
  const { seconds } = recovery;
  const took = seconds === undefined ? `not within ${givenUpMs / 1_000} s` : `${seconds.toFixed(1)} s`;
  report.say(`${new Date().toISOString().slice(11, 19)} ${fault.name}: ${took}`);
  const missing = recovery.missing.slice(0, 4).join(", ");
  report.check(
    `${fault.name}: right again within ${recoveryMaxMs / 1_000} s`,
    isInTime(recovery),
    `${took} ${missing}`,
  );
  report.check(`${fault.name}: no process ends by itself`, world.unexpectedEnds.length === 0, () =>
    [...new Set(world.unexpectedEnds)].join("; "),
  );
  await fault.restore?.();
  if (seconds === undefined) await help();
}

/** What an operator does when nothing else helps, so that the next fault finds everything in order. */
async function help(): Promise<void> {
  report.say("starting everything again");
  const episode = scoreboard.inject("started again by hand", allExcuses);
  await Promise.all([world.service.stop(3_000), world.loader.stop(2_000)]);
  await world.endSessions();
  world.service.start();
  world.loader.start();
  scoreboard.heal(episode);
  await everyoneIsRight();
  scoreboard.close(episode, 0);
}

function everyoneIsRight(): Promise<boolean> {
  return world.within(everyoneMaxMs, () => scoreboard.allRight);
}

function holdFactor(): number {
  return Math.min(longestHold, Math.max(1, settings.seconds / secondsForAll));
}

function summarise(faults: readonly Fault[]): void {
  const rows = [...scoreboard.rows.values()];
  const tried = faults.every(({ name }) => (scoreboard.rows.get(name)?.times ?? 0) > 0);
  report.check("every fault was tried", tried);
  for (const { name, wrong } of rows) report.check(`${name}: no wrong answer`, wrong === 0, `${wrong} wrong answers`);
  for (const line of scoreboard.honestErrors().slice(0, honestErrorsShown)) report.say(line);
  report.table([
    ["fault", "times", "right answers", "honest errors", "wrong answers", "seconds to recover"],
    ...rows.map(({ name, times, right, honest, wrong, recoverySeconds }) => {
      const recovered = recoverySeconds === undefined ? "-" : recoverySeconds.toFixed(1).replace("Infinity", "never");
      return [name, times, right, honest, wrong, recovered];
    }),
  ]);
}
