// npm run bench -- ledger [--entries N,N…] [--parties N,N…] [--rounds N] [--only TEXT] [--part build|pages|size]
//   [--buffer-pool-gib N] [--data-dir DIR]
// Pages of ledgers of several sizes, below HTTP, against the best SQL that a person who knows the store would write for
// that very page. All alternate in one process, through the same driver. Then what else a ledger's size costs.
import { parseArgs } from "node:util";
import { pino } from "pino";
import type { TimeRange } from "../src/domain/date-range.js";
import type { PageRequest } from "../src/domain/page.js";
import type { PlanCosts } from "../src/ledger/ledger-metrics.js";
import { LedgerReader } from "../src/ledger/ledger-reader.js";
import type { LedgerFilter } from "../src/ledger/selection.js";
import { type Database, openDatabase } from "../src/store/database.js";
import { type DatasetOptions, makeDataset } from "./ledger/dataset.js";
import { type BenchFilter, filters, timeOf } from "./ledger/filters.js";
import { handStatements } from "./ledger/hand-sql.js";
import { LedgerOverHttp } from "./ledger/over-http.js";
import { bufferPoolGibDefault, openBenchServer } from "./ledger/place.js";
import { ledgerBytes, printSizeCosts, sizeCosts } from "./ledger/size-costs.js";

/** A statement by hand that takes longer is out of the race, and not run again. */
const handTimeoutSeconds = 0.5;

/** Rounds of each page that do not count, and requests before the first of all: what the runtime compiles meanwhile. */
const warmUpRounds = 4;
const warmUpRequests = 150;

const { values } = parseArgs({
  options: {
    entries: { type: "string", default: "2000000,20000000" },
    parties: { type: "string", default: "35500" },
    rounds: { type: "string", default: "31" },
    only: { type: "string", default: "" },
    part: { type: "string", default: "" },
    "buffer-pool-gib": { type: "string", default: String(bufferPoolGibDefault) },
    "data-dir": { type: "string" },
  },
});

/** Ours, the best by hand, and ours as JSON over HTTP. */
type Contender = "ours" | "hand" | "http";

interface Timing {
  readonly name: string;
  /** Milliseconds. */
  readonly taken: Readonly<Record<Contender, number[]>>;
  readonly way: string;
  /** Of ours. */
  readonly plans: string;
  readonly rows: number;
}

const positions = ["first", "middle", "last"] as const;

function quantile(numbers: readonly number[], part: number): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

async function timed(act: () => Promise<unknown>): Promise<number> {
  const began = process.hrtime.bigint();
  await act();
  return Number(process.hrtime.bigint() - began) / 1e6;
}

/** A page to measure, and what it is measured against. */
interface Subject {
  readonly ways: Readonly<Record<Contender, () => Promise<unknown>>>;
  readonly rows: number;
  readonly way: string;
  readonly plans: string;
}

/** One ledger, and what measures it. */
class LedgerBench {
  readonly #ledger: LedgerReader;
  /** The same, but it tells its plans. */
  readonly #explaining: LedgerReader;
  #plans = "";
  readonly #ours: Database;
  readonly #hand: Database;
  #http: LedgerOverHttp | undefined;
  #span: { readonly first: bigint; readonly last: bigint } | undefined;

  constructor(url: string) {
    this.#ours = openDatabase(url, { connectionsMax: 1 });
    this.#hand = openDatabase(url, { connectionsMax: 1 });
    this.#ledger = new LedgerReader(this.#ours);
    const write = (line: string) => {
      const { plans }: { plans: readonly PlanCosts[] } = JSON.parse(line);
      this.#plans = plans.map(({ plan, statements }) => `${plan} ${statements}`).join(", ");
    };
    this.#explaining = new LedgerReader(this.#ours, { log: pino({ level: "debug" }, { write }) });
  }

  async start(): Promise<void> {
    await this.#limitHand();
    [this.#span] = await this.#hand.query<{ first: bigint; last: bigint }>(
      "SELECT MIN(time_ns) AS first, MAX(time_ns) AS last FROM block",
    );
    await this.#ledger.warm();
    await this.#explaining.warm();
    this.#http = await LedgerOverHttp.start(this.#ledger);
  }

  async close(): Promise<void> {
    await this.#http?.close();
    await this.#ours.close();
    await this.#hand.close();
  }

  async #limitHand(): Promise<void> {
    await this.#hand
      .withConnection((connection) => connection.run(`SET SESSION max_statement_time = ${handTimeoutSeconds}`))
      .catch(() =>
        this.#hand.withConnection((connection) =>
          connection.run(`SET SESSION max_execution_time = ${handTimeoutSeconds * 1000}`),
        ),
      );
  }

  async subject({ filter, part }: BenchFilter, position: (typeof positions)[number], size: number): Promise<Subject> {
    const time = timeOf(part, this.#span?.first ?? 0n, this.#span?.last ?? 0n);
    const ends = async (backwards: boolean) =>
      (await this.#ledger.page(filter, time, { newestFirst: true, size: 1, backwards, cursor: undefined })).rows[0]?.id;
    const [newest, oldest] = [await ends(false), await ends(true)];
    const between = newest === undefined || oldest === undefined ? undefined : (newest + oldest) / 2n;
    const cursor = position === "middle" ? await this.#matchAt(filter, time, between) : undefined;
    const request: PageRequest<bigint> = { newestFirst: true, size, backwards: position === "last", cursor };
    const { extent, directory } = await this.#ledger.read(undefined, time, async () => []);
    const range = {
      low: extent.low,
      high: cursor === undefined ? extent.high : cursor - 1n,
      descending: position !== "last",
      limit: size,
    };
    const [way, sql] = await this.#bestByHand(handStatements(directory, filter, range));
    const { rows } = await this.#explaining.page(filter, time, request);
    const ways = {
      ours: () => this.#ledger.page(filter, time, request),
      hand: () => this.#hand.query(sql),
      http: async () => this.#http?.page(filter, time, request),
    };
    return { ways, rows: rows.length, way, plans: this.#plans };
  }

  /** The cursor that a client would have there: that of a row of the list. */
  async #matchAt(filter: LedgerFilter, time: TimeRange, cursor: bigint | undefined): Promise<bigint | undefined> {
    const page = await this.#ledger.page(filter, time, { newestFirst: true, size: 1, backwards: false, cursor });
    return page.rows[0]?.id ?? cursor;
  }

  /** Each four times; the fastest run after the first wins. */
  async #bestByHand(statements: ReadonlyMap<string, string>): Promise<readonly [string, string]> {
    let best: readonly [string, string] = ["none within the limit", "SELECT SLEEP(0.45)"];
    let bestMs = handTimeoutSeconds * 1000;
    for (const [way, sql] of statements) {
      const run = () => timed(() => this.#hand.query(sql));
      const ms = await run()
        .then(async () => Math.min(await run(), await run(), await run()))
        .catch(() => Number.POSITIVE_INFINITY);
      if (ms < bestMs) [best, bestMs] = [[way, sql], ms];
    }
    return best;
  }
}

/** All ledgers and all ways take turns, so that what else the machine does meets all of them alike. */
async function measure(benches: readonly LedgerBench[]): Promise<Timing[][]> {
  const results: Timing[][] = benches.map(() => []);
  const chosen = filters.filter(({ name }) => name.includes(values.only));
  const [first] = chosen;
  if (first === undefined) throw new Error(`no filter of the bench has "${values.only}" in its name`);
  for (const ledger of benches) {
    const { ways } = await ledger.subject(first, "first", 100);
    for (let i = 0; i < warmUpRequests; i++) for (const act of Object.values(ways)) await act();
  }
  for (const [i, bench] of chosen.entries()) {
    console.error(`${i + 1} of ${chosen.length}: ${bench.name}`);
    for (const size of [100, 1000]) {
      for (const position of positions) {
        const timings = await timingsOf(benches, bench, position, size);
        for (const [j, timing] of timings.entries()) results[j]?.push(timing);
      }
    }
  }
  return results;
}

async function timingsOf(
  benches: readonly LedgerBench[],
  bench: BenchFilter,
  position: (typeof positions)[number],
  size: number,
): Promise<Timing[]> {
  const subjects: Subject[] = [];
  for (const ledger of benches) subjects.push(await ledger.subject(bench, position, size));
  const timings = subjects.map(({ rows, way, plans }): Timing => {
    return {
      name: `${bench.name}, ${position} ${size}`,
      taken: { ours: [], hand: [], http: [] },
      way,
      plans,
      rows,
    };
  });
  for (let round = -warmUpRounds; round < Number(values.rounds); round++) {
    for (const [subject, contender] of turns(subjects.length, round)) {
      const ms = await timed(subjects[subject]?.ways[contender] ?? (async () => {}));
      if (round >= 0) timings[subject]?.taken[contender].push(ms);
    }
  }
  return timings;
}

/** Whose turn it is, in an order of its own each round: who comes after another finds the processor's caches as left. */
function turns(subjects: number, round: number): [subject: number, contender: Contender][] {
  const contenders: readonly Contender[] = round % 3 === 0 ? ["ours", "hand", "http"] : ["ours", "hand"];
  const order = Array.from({ length: subjects }, (_, subject) =>
    contenders.map((contender): [number, Contender] => [subject, contender]),
  ).flat();
  for (let i = order.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    const [a, b] = [order[i], order[j]];
    if (a !== undefined && b !== undefined) [order[i], order[j]] = [b, a];
  }
  return order;
}

/** What one ledger's pages came to, at worst. */
interface Worst {
  readonly vsHand: number;
  readonly growth: number;
}

/** @param smaller the pages of the next smaller ledger; none for the smallest */
function print(entries: number, timings: readonly Timing[], smaller: readonly Timing[]): Worst {
  const worst = {
    hand: Number.POSITIVE_INFINITY,
    growth: Number.POSITIVE_INFINITY,
    ms: 0,
  };
  const width = Math.max(...timings.map(({ name }) => name.length));
  console.log(
    `\n${entries.toLocaleString("en")} entries; milliseconds; hand: the best statement by hand, and which it is; ` +
      "HTTP: what JSON and a socket add to p50; last, the statement by hand, and our plans with their statements",
  );
  console.log(`${"".padEnd(width)}    p50    p99   hand p50 p99      HTTP  rows  vs hand  growth`);
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
    const numbers = [p50, p99, hand, quantile(taken.hand, 0.99), http].map((ms) => ms.toFixed(2).padStart(7)).join(" ");
    const mark = vsHand < 1 || growth < 1 || p50 > 50 ? " !" : "";
    console.log(
      `${timing.name.padEnd(width)} ${numbers} ${String(timing.rows).padStart(5)} ${vsHand.toFixed(2).padStart(7)} ${growth.toFixed(2).padStart(7)}  ${timing.way}; ${timing.plans}${mark}`,
    );
  });
  console.log(`slowest median: ${worst.ms.toFixed(1)} ms`);
  return { vsHand: worst.hand, growth: worst.growth };
}

/** Prints the pages of every ledger. @returns the smallest ratios, by name */
function printPages(ledgers: readonly DatasetOptions[], results: readonly (readonly Timing[])[]): [string, number][] {
  const short = (entries = 0) => (entries < 1e6 ? `${entries / 1e3}k` : `${entries / 1e6}m`);
  const ratios: [string, number][] = [];
  ledgers.forEach(({ entries }, i) => {
    const { vsHand, growth } = print(entries, results[i] ?? [], results[i - 1] ?? []);
    if (i === ledgers.length - 1) ratios.unshift(["worst_vs_hand_sql", vsHand]);
    if (i > 0) ratios.push([`worst_growth_${short(ledgers[i - 1]?.entries)}_to_${short(entries)}`, growth]);
  });
  return ratios.map(([name, value]) => [name, Math.round(value * 1000) / 1000]);
}

/** Has the server read ledgers, from the smallest on, as long as its cache holds them: the data may be of an earlier run. */
async function readIntoCache(urls: readonly string[]): Promise<void> {
  let read = 0n;
  for (const url of urls) {
    const database = openDatabase(url, { connectionsMax: 1, statementTimeoutMs: Number.POSITIVE_INFINITY });
    const [cache] = await database.query<{ bytes: bigint }>("SELECT @@innodb_buffer_pool_size AS bytes");
    read += await ledgerBytes(database);
    if (read * 10n > (cache?.bytes ?? 0n) * 9n) {
      console.error("the cache does not hold the larger ledgers: their pages are read when they are first needed");
      await database.close();
      return;
    }
    for (const index of ["PRIMARY", "ledger_entry_class", "ledger_entry_from", "ledger_entry_to"]) {
      await database.query(`SELECT SUM(id) FROM ledger_entry FORCE INDEX (${index}) WHERE id > 0`);
    }
    await database.close();
  }
}

async function measurePages(ledgers: readonly DatasetOptions[], urls: readonly string[]): Promise<void> {
  console.error("reading the ledgers, so that they are in memory");
  await readIntoCache(urls);
  const benches = urls.map((url) => new LedgerBench(url));
  for (const bench of benches) await bench.start();
  const results = await measure(benches);
  for (const bench of benches) await bench.close();
  const ratios = Object.fromEntries(printPages(ledgers, results));
  console.log(JSON.stringify({ name: "ledger", ratios }));
}

async function measureSizes(ledgers: readonly DatasetOptions[], urls: readonly string[]): Promise<void> {
  const costs = [];
  for (const [i, options] of ledgers.entries()) {
    console.error(`start, export and load at ${options.entries.toLocaleString("en")} entries`);
    costs.push(await sizeCosts(urls[i] ?? "", options));
  }
  printSizeCosts(costs);
}

/** The ledgers of the flags, smallest first; the last number of parties is that of all further ones. */
function chosenLedgers(): DatasetOptions[] {
  const parties = values.parties.split(",").map(Number);
  return values.entries.split(",").map((entries, i) => {
    return { entries: Number(entries), parties: parties[i] ?? parties.at(-1) ?? 0, hotShare: 0.05 };
  });
}

const server = await openBenchServer(values["data-dir"], Number(values["buffer-pool-gib"]));
try {
  const ledgers = chosenLedgers();
  const urls = ledgers.map(({ entries }) => server.databaseUrl(`ledger_${entries}`));
  for (const [i, options] of ledgers.entries()) {
    console.error(`making a ledger of ${options.entries.toLocaleString("en")} entries, unless it is there`);
    await makeDataset(urls[i] ?? "", options, console.error);
  }
  if (["", "size"].includes(values.part)) await measureSizes(ledgers, urls);
  if (["", "pages"].includes(values.part)) await measurePages(ledgers, urls);
} finally {
  await server.close();
}
