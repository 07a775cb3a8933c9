// npm run bench -- ledger [--entries N,N…] [--parties N,N…] [--trades N,N…] [--rounds N] [--only TEXT]
//   [--part build|pages|size|trades] [--buffer-pool-gib N] [--data-dir DIR]
// Pages of ledgers of several sizes, below HTTP, against the best SQL that a person who knows the store would write for
// that very page. All alternate in one process, through the same driver. Then what else a ledger's size costs,
// and pages of trades (as many as entries, unless told) and of their candles, also against a market's page of the
// ledger in the same place of the list.
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
import {
  bestByHand,
  limitHand,
  measurePages,
  type PageBench,
  type Position,
  printPages,
  quantile,
  type Subject,
} from "./ledger/pages.js";
import { bufferPoolGibDefault, openBenchServer } from "./ledger/place.js";
import { ledgerBytes, printSizeCosts, sizeCosts } from "./ledger/size-costs.js";
import { makeTrades, TradeBench, tradeQuestions } from "./ledger/trades.js";

const { values } = parseArgs({
  options: {
    entries: { type: "string", default: "2000000,20000000" },
    parties: { type: "string", default: "35500" },
    trades: { type: "string" },
    rounds: { type: "string", default: "31" },
    only: { type: "string", default: "" },
    part: { type: "string", default: "" },
    "buffer-pool-gib": { type: "string", default: String(bufferPoolGibDefault) },
    "data-dir": { type: "string" },
  },
});

/** One ledger, and what measures it. */
class LedgerBench implements PageBench<BenchFilter> {
  readonly #ledger: LedgerReader;
  /** The same, but it tells its plans. */
  readonly #explaining: LedgerReader;
  #plans = "";
  readonly #ours: Database;
  readonly #hand: Database;
  #http: LedgerOverHttp | undefined;
  #span: { readonly first: bigint; readonly last: bigint } | undefined;

  constructor(
    url: string,
    readonly entries: number,
  ) {
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
    await limitHand(this.#hand);
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

  async subject({ filter, part }: BenchFilter, position: Position, size: number): Promise<Subject> {
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
    const [way, sql] = await bestByHand(this.#hand, handStatements(directory, filter, range));
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

/** The pages of all ledgers. @returns the smallest ratios, by name */
async function measureLedgers(
  ledgers: readonly DatasetOptions[],
  urls: readonly string[],
): Promise<[string, number][]> {
  console.error("reading the ledgers, so that they are in memory");
  await readIntoCache(urls);
  const benches = urls.map((url, i) => new LedgerBench(url, ledgers[i]?.entries ?? 0));
  for (const bench of benches) await bench.start();
  const chosen = filters.filter(({ name }) => name.includes(values.only));
  const results = await measurePages(benches, chosen, Number(values.rounds));
  for (const bench of benches) await bench.close();
  return printPages(benches, results, "entries");
}

/** Pages of each number of trades, beside a ledger. @returns the smallest ratios, by name */
async function measureTrades(ledgers: readonly DatasetOptions[], urls: readonly string[]): Promise<[string, number][]> {
  const beside = filters.find(({ name }) => name === "market");
  if (beside === undefined) throw new Error("there is no page of a ledger to compare with");
  const ledgerBenches: LedgerBench[] = [];
  const benches: TradeBench[] = [];
  for (const [i, trades] of (values.trades ?? values.entries).split(",").map(Number).entries()) {
    const url = server.databaseUrl(`trades_${trades}`);
    console.error(`making ${trades.toLocaleString("en")} trades, unless they are there`);
    await makeTrades(url, trades, console.error);
    const at = Math.min(i, ledgers.length - 1);
    const ledger = new LedgerBench(urls[at] ?? "", ledgers[at]?.entries ?? 0);
    await ledger.start();
    ledgerBenches.push(ledger);
    benches.push(new TradeBench(url, trades, ledger, beside));
  }
  for (const bench of benches) await bench.start();
  const questions = tradeQuestions.filter(({ name }) => name.includes(values.only));
  const results = await measurePages(benches, questions, Number(values.rounds));
  for (const bench of [...benches, ...ledgerBenches]) await bench.close();
  const ratios = printPages(benches, results, "trades", "trades_");
  const asLedger = (results.at(-1) ?? []).filter(({ name }) => /^(trades of a market|candles of a minute),/.test(name));
  for (const { name, taken } of asLedger) {
    const ratio = quantile(taken.ledger, 0.5) / quantile(taken.ours, 0.5);
    ratios.push([`${name.replaceAll(/[ ,]+/g, "_")}_vs_ledger`, Math.round(ratio * 1000) / 1000]);
  }
  return ratios;
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
  const ratios = [];
  if (["", "pages"].includes(values.part)) ratios.push(...(await measureLedgers(ledgers, urls)));
  if (["", "trades"].includes(values.part)) ratios.push(...(await measureTrades(ledgers, urls)));
  if (ratios.length > 0) console.log(JSON.stringify({ name: "ledger", ratios: Object.fromEntries(ratios) }));
} finally {
  await server.close();
}
