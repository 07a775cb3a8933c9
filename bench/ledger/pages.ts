import type { Database } from "../../src/store/database.js";

/** A statement by hand that takes longer is out of the race, and not run again. */
const handTimeoutSeconds = 0.5;

/** Rounds of each page that do not count, and requests before the first of all: what the runtime compiles meanwhile. */
const warmUpRounds = 4;
const warmUpRequests = 150;

/** Ours, the best by hand, ours as JSON over HTTP, and a page of a ledger that is as large. */
type Contender = "ours" | "hand" | "http" | "ledger";

/** Every so many rounds it is the turn of those that are not compared with each other. */
const seldom = 3;

/** A page to measure, and what it is measured against. */
export interface Subject {
  readonly ways: Partial<Readonly<Record<Contender, () => Promise<unknown>>>>;
  readonly rows: number;
  /** The statement by hand. */
  readonly way: string;
  /** Of ours. */
  readonly plans: string;
}

const positions = ["first", "middle", "last"] as const;
export type Position = (typeof positions)[number];

/** Which pages of a list are measured, and of how many rows. */
const pages = [100, 1000].flatMap((size) => positions.map((position) => [position, size] as const));

/** A store of one size, and its pages. */
export interface PageBench<Q extends { readonly name: string }> {
  /** Of rows. */
  readonly entries: number;
  subject(question: Q, position: Position, size: number): Promise<Subject>;
}

export interface Timing extends Omit<Subject, "ways"> {
  readonly name: string;
  /** Milliseconds. */
  readonly taken: Readonly<Record<Contender, number[]>>;
}

export function quantile(numbers: readonly number[], part: number): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

async function timed(act: () => Promise<unknown>): Promise<number> {
  const began = process.hrtime.bigint();
  await act();
  return Number(process.hrtime.bigint() - began) / 1e6;
}

/** Has the server give up statements by hand in time. */
export async function limitHand(hand: Database): Promise<void> {
  await hand
    .withConnection((connection) => connection.run(`SET SESSION max_statement_time = ${handTimeoutSeconds}`))
    .catch(() =>
      hand.withConnection((connection) =>
        connection.run(`SET SESSION max_execution_time = ${handTimeoutSeconds * 1000}`),
      ),
    );
}

/** The fastest of the ways to ask for the same rows. Each is run four times; the fastest run after the first counts. */
export async function bestByHand(
  hand: Database,
  statements: ReadonlyMap<string, string>,
): Promise<readonly [way: string, sql: string]> {
  let best: readonly [string, string] = ["none within the limit", "SELECT SLEEP(0.45)"];
  let bestMs = handTimeoutSeconds * 1000;
  for (const [way, sql] of statements) {
    const run = () => timed(() => hand.query(sql));
    const ms = await run()
      .then(async () => Math.min(await run(), await run(), await run()))
      .catch(() => Number.POSITIVE_INFINITY);
    if (ms < bestMs) [best, bestMs] = [[way, sql], ms];
  }
  return best;
}

/** All stores and all ways take turns, so that what else the machine does meets all of them alike. */
export async function measurePages<Q extends { readonly name: string }>(
  benches: readonly PageBench<Q>[],
  questions: readonly Q[],
  rounds: number,
): Promise<Timing[][]> {
  const results: Timing[][] = benches.map(() => []);
  const [first] = questions;
  if (first === undefined) throw new Error("no question of the bench has the text of --only in its name");
  for (const bench of benches) {
    const { ways } = await bench.subject(first, "first", 100);
    for (let i = 0; i < warmUpRequests; i++) for (const act of Object.values(ways)) await act();
  }
  for (const [i, question] of questions.entries()) {
    console.error(`${i + 1} of ${questions.length}: ${question.name}`);
    for (const [position, size] of pages) {
      const subjects: Subject[] = [];
      for (const bench of benches) subjects.push(await bench.subject(question, position, size));
      const timings = await timingsOf(`${question.name}, ${position} ${size}`, subjects, rounds);
      for (const [j, timing] of timings.entries()) results[j]?.push(timing);
    }
  }
  return results;
}

async function timingsOf(name: string, subjects: readonly Subject[], rounds: number): Promise<Timing[]> {
  const timings = subjects.map(({ ways: _, ...subject }): Timing => {
    return { name, taken: { ours: [], hand: [], http: [], ledger: [] }, ...subject };
  });
  for (let round = -warmUpRounds; round < rounds; round++) {
    for (const [subject, contender] of turns(subjects, round)) {
      const ms = await timed(subjects[subject]?.ways[contender] ?? (async () => {}));
      if (round >= 0) timings[subject]?.taken[contender].push(ms);
    }
  }
  return timings;
}

/** Whose turn it is, in an order of its own each round: who comes after another finds the processor's caches as left. */
function turns(subjects: readonly Subject[], round: number): [subject: number, contender: Contender][] {
  const order = subjects.flatMap(({ ways }, subject) => {
    const contenders = Object.keys(ways) as Contender[];
    return contenders
      .filter((contender) => contender !== "http" || round % seldom === 0)
      .map((contender): [number, Contender] => [subject, contender]);
  });
  for (let i = order.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    const [a, b] = [order[i], order[j]];
    if (a !== undefined && b !== undefined) [order[i], order[j]] = [b, a];
  }
  return order;
}

/** What one store's pages came to, at worst. */
interface Worst {
  readonly vsHand: number;
  readonly growth: number;
}

/** @param smaller the pages of the next smaller store; none for the smallest */
function print(entries: string, timings: readonly Timing[], smaller: readonly Timing[]): Worst {
  const worst = { hand: Number.POSITIVE_INFINITY, growth: Number.POSITIVE_INFINITY, ms: 0 };
  const width = Math.max(...timings.map(({ name }) => name.length));
  console.log(
    `\n${entries}; milliseconds; hand: the best statement by hand, and which it is; HTTP: what JSON and a socket add ` +
      "to p50; ledger: a ledger's page; last, the statement by hand, and our plans with their statements",
  );
  console.log(`${"".padEnd(width)}    p50    p99   hand p50 p99      HTTP  ledger  rows  vs hand  growth`);
  timings.forEach((timing, i) => {
    const { taken } = timing;
    const [p50, p99, hand] = [quantile(taken.ours, 0.5), quantile(taken.ours, 0.99), quantile(taken.hand, 0.5)];
    const before = smaller[i];
    const vsHand = (1.3 * hand + 1) / p50;
    const growth = before === undefined ? 1 : (1.3 * quantile(before.taken.ours, 0.5) + 1) / p50;
    worst.hand = Math.min(worst.hand, vsHand);
    worst.growth = Math.min(worst.growth, growth);
    worst.ms = Math.max(worst.ms, p50);
    const http = quantile(taken.http, 0.5) - p50;
    const numbers = [p50, p99, hand, quantile(taken.hand, 0.99), http, quantile(taken.ledger, 0.5)]
      .map((ms) => (Number.isNaN(ms) ? "-" : ms.toFixed(2)).padStart(7))
      .join(" ");
    const mark = vsHand < 1 || growth < 1 || p50 > 50 ? " !" : "";
    console.log(
      `${timing.name.padEnd(width)} ${numbers} ${String(timing.rows).padStart(5)} ${vsHand.toFixed(2).padStart(7)} ${growth.toFixed(2).padStart(7)}  ${timing.way}; ${timing.plans}${mark}`,
    );
  });
  console.log(`slowest median: ${worst.ms.toFixed(1)} ms`);
  return { vsHand: worst.hand, growth: worst.growth };
}

/** Prints the pages of every store, the smallest first. @returns the smallest ratios, by names that begin so */
export function printPages(
  benches: readonly { readonly entries: number }[],
  results: readonly (readonly Timing[])[],
  noun: string,
  prefix = "",
): [string, number][] {
  const short = (entries = 0) => (entries < 1e6 ? `${entries / 1e3}k` : `${entries / 1e6}m`);
  const ratios: [string, number][] = [];
  benches.forEach(({ entries }, i) => {
    const { vsHand, growth } = print(`${entries.toLocaleString("en")} ${noun}`, results[i] ?? [], results[i - 1] ?? []);
    if (i === benches.length - 1) ratios.unshift([`${prefix}worst_vs_hand_sql`, vsHand]);
    if (i > 0) ratios.push([`${prefix}worst_growth_${short(benches[i - 1]?.entries)}_to_${short(entries)}`, growth]);
  });
  return ratios.map(([name, value]) => [name, Math.round(value * 1000) / 1000]);
}
