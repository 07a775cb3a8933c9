import { setTimeout as delay } from "node:timers/promises";
import { RandomSource } from "./chaos/random-source.js";
import { tryRecordings } from "./history/archive.js";
import { disturb } from "./history/disturbances.js";
import { HistoryWorld, type RunContext, type Served } from "./history/history-world.js";
import { LiveReader } from "./history/live-readers.js";
import type { BlockEnd } from "./history/market-past.js";
import { type Asked, clientsOf, PastQuestions } from "./history/past-questions.js";
import { gapNoticedMsMax, JoiningReader, type ReplayContext, replayToEnd } from "./history/replay-readers.js";
import { Tally } from "./history/tally.js";
import { Report } from "./support/report.js";
import { readSettings } from "./support/settings.js";

/**
 * npm run history -- [--seconds S] [--seed N] [--program PATH] [--readers N] [--only world|recordings]
 *
 * Past books, lists of changes, replays and resumed streams, while a network trades and loaders and services are killed,
 * prune, and give way to an earlier release. Every response is compared with an oracle that folds the events by itself
 * (docs/reliability.md). It ends with `N passed, N failed`.
 */

const defaultSeconds = 120;
const defaultReaders = "24";
/** Of the time, for recordings that are asked without anything else happening. */
const recordingsShare = 0.3;
const questionLoops = 6;
const replayLoops = 3;
/** How long a block may take from its commit until a service has it. */
const freshnessMs = 1_500;
/** How long a reader of the replica may take to see that the past is kept again. */
const laggingMs = 8_000;
/** Resumes over few blocks on large books take at most this share of the bytes of whole books, at the median. */
const resumeShareMax = 0.1;

const settings = readSettings("history", defaultSeconds, ["readers", "only"]);
const report = new Report();
const random = new RandomSource(settings.seed);
const tally = new Tally(report, settings.seed);
const context: RunContext = { settings, report, random };
const readers = Number(settings.more["readers"] ?? defaultReaders);
report.say(`seed ${settings.seed}; ${settings.program}`);

const { only } = settings.more;
const ofRecordings = only === undefined ? recordingsShare : Number(only === "recordings");
if (ofRecordings > 0) await tryRecordings(context, tally, settings.seconds * ofRecordings);
if (ofRecordings < 1) await tryWorld(settings.seconds * (1 - ofRecordings));
tally.finish();
report.say(`${tally.questions} questions`);
report.finish();
setTimeout(() => process.exit(), 1_000).unref();

async function tryWorld(seconds: number): Promise<void> {
  const world = await HistoryWorld.create(context);
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => void world.close().finally(() => process.exit(130)));
  }
  const stop = new AbortController();
  try {
    const resumeShares: number[] = [];
    const loops = startReaders(world, stop.signal, resumeShares);
    const timer = setTimeout(() => stop.abort(), seconds * 1_000);
    await disturb(world, stop.signal);
    clearTimeout(timer);
    stop.abort();
    await Promise.race([Promise.all(loops), delay(20_000)]);
    await world.settle();
    await checkEnd(world, resumeShares);
  } finally {
    stop.abort();
    await world.close();
  }
}

function startReaders(world: HistoryWorld, signal: AbortSignal, resumeShares: number[]): Promise<void>[] {
  const committed = (): BlockEnd => world.committed ?? world.oracle.newest;
  const questions = new PastQuestions(world.kept, random, tally, committed);
  const replays: ReplayContext = {
    ...{ kept: world.kept, random, tally, questions, signal, committed, resumeShares },
    services: world.services.map((service) => {
      const { name, port } = service;
      return { name, port, mayFail: () => name !== "steady", mayLack: askedOf(world, service).mayLack };
    }),
    wideMarkets: () => world.wideMarkets,
  };
  const loops: Promise<void>[] = [];
  for (let loop = 0; loop < questionLoops; loop++) loops.push(askOn(world, questions, signal));
  for (let loop = 0; loop < replayLoops; loop++) loops.push(until(signal, () => replayToEnd(replays)));
  for (let reader = 0; reader < readers; reader++) {
    loops.push(reader % 3 === 2 ? new LiveReader(replays).run() : new JoiningReader(replays).run());
  }
  return loops;
}

async function until(signal: AbortSignal, act: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    await act();
    await delay(20);
  }
}

/** One question after the other. */
async function askOn(world: HistoryWorld, questions: PastQuestions, signal: AbortSignal): Promise<void> {
  const asked = world.services.map((service) => askedOf(world, service));
  await until(signal, async () => {
    const target = random.pick(asked);
    const dice = random.next();
    try {
      if (dice < 0.75) await questions.askDepth(target);
      else if (dice < 0.97) await questions.askChanges(target);
      else await questions.askNonsense(target);
    } catch (error) {
      if (signal.aborted) return;
      const isExcused = target.name === "young";
      if (isExcused) tally.honest("past book", "the connection broke or was refused");
      else tally.wrong("past book", target.name, String(error));
      await delay(50);
    }
  });
}

function askedOf(world: HistoryWorld, { name, port }: Served): Asked {
  const commits = name === "lagging" ? world.replicaCommits : world.commits;
  const mayLack = (block: BlockEnd) => commits.heightAt(performance.now() - freshnessMs) < block.index + 1;
  const gapLagMs = name === "lagging" ? laggingMs : gapNoticedMsMax;
  return { name, ...clientsOf(port), gapLagMs, mayLack };
}

async function checkEnd(world: HistoryWorld, shares: number[]): Promise<void> {
  const [sealed] = await world.primary.run("SELECT COUNT(*) count FROM marketd.book_segment WHERE digest IS NOT NULL");
  report.check("segments were sealed", Number(sealed?.["count"]) > 50, `${sealed?.["count"]}`);
  const { code, printed } = await world.verify();
  report.check("the databases's past is verified", code === 0, printed.trim().slice(-500));
  shares.sort((a, b) => a - b);
  const median = shares[Math.floor(shares.length / 2)];
  report.say(
    `resumes over few blocks of large books: ${shares.length}, at the median ${median?.toFixed(3)} of whole books`,
  );
  if (median !== undefined) report.check("resumes are cheap", median <= resumeShareMax, `${median}`);
}
