// npm run bench -- ledger [--entries N] [--parties N] [--rounds N] [--only TEXT] [--data-dir DIR]
// Pages of the ledger on N entries and on a tenth of them, below HTTP, against the best SQL that a person who knows the
// store would write for that very page. Both alternate in one process, through the same driver.
import { parseArgs } from "node:util";
import type { TimeRange } from "../src/domain/date-range.js";
import type { PageRequest } from "../src/domain/page.js";
import { type Database, openDatabase } from "../src/store/database.js";
import { LedgerReader } from "../src/store/ledger-entry-query.js";
import type { LedgerFilter } from "../src/store/ledger-selection.js";
import { makeDataset } from "./ledger/dataset.js";
import { type BenchFilter, filters, timeOf } from "./ledger/filters.js";
import { handStatements } from "./ledger/hand-sql.js";
import { LedgerOverHttp } from "./ledger/over-http.js";
import { openBenchServer } from "./ledger/place.js";

/** A statement by hand that takes longer is out of the race, and not run again. */
const handTimeoutSeconds = 0.5;

/** Rounds of each page that do not count, and requests before the first of all: what the runtime compiles meanwhile. */
const warmUpRounds = 4;
const warmUpRequests = 150;

const { values } = parseArgs({
  options: {
    entries: { type: "string", default: "20000000" },
    parties: { type: "string", default: "35500" },
    rounds: { type: "string", default: "31" },
    only: { type: "string", default: "" },
    "data-dir": { type: "string" },
  },
});

interface Cell {
  readonly name: string;
  readonly ours: number[];
  readonly hand: number[];
  readonly http: number[];
  readonly way: string;
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
  /** Milliseconds of one request: by us, by hand, and by us as JSON over HTTP. */
  readonly round: () => Promise<readonly [number, number, number]>;
  readonly rows: number;
  readonly way: string;
}

/** One ledger, and what measures it. */
class LedgerBench {
  readonly #ledger: LedgerReader;
  readonly #ours: Database;
  readonly #hand: Database;
  #http: LedgerOverHttp | undefined;
  #span: { readonly first: bigint; readonly last: bigint } | undefined;

  constructor(url: string) {
    this.#ours = openDatabase(url, { connectionsMax: 1 });
    this.#hand = openDatabase(url, { connectionsMax: 1 });
    this.#ledger = new LedgerReader(this.#ours);
  }

  async start(): Promise<void> {
    await this.#limitHand();
    [this.#span] = await this.#hand.query<{ first: bigint; last: bigint }>(
      "SELECT MIN(time_ns) AS first, MAX(time_ns) AS last FROM block",
    );
    await this.#ledger.warm();
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
    const { directory, ids } = await this.#ours.withConnection((connection) => this.#ledger.view(connection, time));
    const range = {
      low: ids?.low ?? 1n,
      high: cursor === undefined ? (ids?.high ?? 0n) : cursor - 1n,
      descending: position !== "last",
      limit: size,
    };
    const [way, sql] = await this.#bestByHand(handStatements(directory, filter, range));
    const { rows } = await this.#ledger.page(filter, time, request);
    const round = async () => {
      const mine = await timed(() => this.#ledger.page(filter, time, request));
      const hand = await timed(() => this.#hand.query(sql));
      return [mine, hand, await timed(async () => this.#http?.page(filter, time, request))] as const;
    };
    return { round, rows: rows.length, way };
  }

  /** The cursor that a client would have there: that of a row of the list. */
  async #matchAt(filter: LedgerFilter, time: TimeRange, cursor: bigint | undefined): Promise<bigint | undefined> {
    const page = await this.#ledger.page(filter, time, { newestFirst: true, size: 1, backwards: false, cursor });
    return page.rows[0]?.id ?? cursor;
  }

  /** Each twice; the faster second run wins. */
  async #bestByHand(statements: ReadonlyMap<string, string>): Promise<readonly [string, string]> {
    let best: readonly [string, string] = ["none within the limit", "SELECT SLEEP(0.45)"];
    let bestMs = handTimeoutSeconds * 1000;
    for (const [way, sql] of statements) {
      const ms = await timed(() => this.#hand.query(sql))
        .then(() => timed(() => this.#hand.query(sql)))
        .catch(() => Number.POSITIVE_INFINITY);
      if (ms < bestMs) [best, bestMs] = [[way, sql], ms];
    }
    return best;
  }
}

/** Both ledgers and both ways take turns, so that what else the machine does meets all of them alike. */
async function measure(benches: readonly LedgerBench[]): Promise<Cell[][]> {
  const results: Cell[][] = benches.map(() => []);
  const chosen = filters.filter(({ name }) => name.includes(values.only));
  const [first] = chosen;
  if (first === undefined) throw new Error(`no filter of the bench has "${values.only}" in its name`);
  for (const ledger of benches) {
    const { round } = await ledger.subject(first, "first", 100);
    for (let i = 0; i < warmUpRequests; i++) await round();
  }
  for (const [i, bench] of chosen.entries()) {
    console.error(`${i + 1} of ${chosen.length}: ${bench.name}`);
    for (const size of [100, 1000]) {
      for (const position of positions) {
        const subjects = await Promise.all(benches.map((ledger) => ledger.subject(bench, position, size)));
        const cells = subjects.map(({ rows, way }): Cell => {
          return { name: `${bench.name}, ${position} ${size}`, ours: [], hand: [], http: [], way, rows };
        });
        for (let round = -warmUpRounds; round < Number(values.rounds); round++) await turn(subjects, cells, round >= 0);
        for (const [j, cell] of cells.entries()) results[j]?.push(cell);
      }
    }
  }
  return results;
}

async function turn(subjects: readonly Subject[], cells: readonly Cell[], counts: boolean): Promise<void> {
  for (const [i, subject] of subjects.entries()) {
    const [ours, hand, http] = await subject.round();
    if (!counts) continue;
    cells[i]?.ours.push(ours);
    cells[i]?.hand.push(hand);
    cells[i]?.http.push(http);
  }
}

function print(entries: number, cells: readonly Cell[], smaller: readonly Cell[]): Record<string, number> {
  const worst = { hand: Number.POSITIVE_INFINITY, growth: Number.POSITIVE_INFINITY, ms: 0 };
  const width = Math.max(...cells.map(({ name }) => name.length));
  console.log(
    `\n${entries.toLocaleString("en")} entries; milliseconds; hand: the best statement by hand, and which it is; ` +
      "HTTP: what JSON and a socket add to p50",
  );
  console.log(`${"".padEnd(width)}    p50    p99   hand p50 p99      HTTP  rows  vs hand  growth`);
  cells.forEach((cell, i) => {
    const [p50, p99, hand] = [quantile(cell.ours, 0.5), quantile(cell.ours, 0.99), quantile(cell.hand, 0.5)];
    const before = smaller[i];
    const vsHand = (1.3 * hand + 1) / p50;
    const growth = before === undefined ? 1 : (1.3 * quantile(before.ours, 0.5) + 1) / p50;
    worst.hand = Math.min(worst.hand, vsHand);
    worst.growth = Math.min(worst.growth, growth);
    worst.ms = Math.max(worst.ms, p50);
    const http = quantile(cell.http, 0.5) - p50;
    const numbers = [p50, p99, hand, quantile(cell.hand, 0.99), http].map((ms) => ms.toFixed(2).padStart(7)).join(" ");
    const mark = vsHand < 1 || growth < 1 || p50 > 50 ? " !" : "";
    console.log(
      `${cell.name.padEnd(width)} ${numbers} ${String(cell.rows).padStart(5)} ${vsHand.toFixed(2).padStart(7)} ${growth.toFixed(2).padStart(7)}  ${cell.way}${mark}`,
    );
  });
  return { worst_vs_hand_sql: worst.hand, worst_growth_2m_to_20m: worst.growth, slowest_p50_ms: worst.ms };
}

const server = await openBenchServer(values["data-dir"]);
try {
  const entries = Number(values.entries);
  const benches: LedgerBench[] = [];
  for (const count of [entries / 10, entries]) {
    const url = server.databaseUrl(`ledger_${count}`);
    console.error(`making a ledger of ${count.toLocaleString("en")} entries, unless it is there`);
    await makeDataset(url, { entries: count, parties: Number(values.parties), hotShare: 0.05 }, console.error);
    benches.push(new LedgerBench(url));
  }
  for (const bench of benches) await bench.start();
  const results = await measure(benches);
  for (const bench of benches) await bench.close();
  const [smaller = [], cells = []] = results;
  print(entries / 10, smaller, []);
  const worst = print(entries, cells, smaller);
  const ratios = Object.fromEntries(
    Object.entries(worst).map(([name, value]) => [name, Math.round(value * 1000) / 1000]),
  );
  console.log(`slowest median: ${ratios["slowest_p50_ms"]} ms`);
  delete ratios["slowest_p50_ms"];
  console.log(JSON.stringify({ name: "ledger", ratios }));
} finally {
  await server.close();
}
