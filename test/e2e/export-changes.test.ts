import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { GetMarketResponseSchema, ListTradesResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { Side, TradeSchema } from "../../gen/vega/vega_pb.js";
import { numberCursors } from "../../src/domain/cursor.js";
import { scaled } from "../../src/domain/decimal-text.js";
import { instant, nanoseconds } from "../../src/domain/instant.js";
import { networkDefaults, simulate } from "../../src/simulator/network.js";
import { failure, LyingServer, unary } from "../client/lying-server.js";
import { run } from "../clients/languages.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { isOffline, partnerProgram } from "../support/partners.js";
import { runToEnd } from "../support/run-marketd.js";
import { TcpBalancer } from "../support/tcp-balancer.js";
import { level, VenueRecording } from "../support/venue-recording.js";
import { tradesOf } from "../trades/trade-model.js";
import { ServiceProcess } from "./service-process.js";

/* The changes of a book as CSV: folding them gives the books that the service gives, scaled by the decimals of the time. */

const installMaxMs = 240_000;
const python = partnerProgram("python");
const columns = "time,block,stream_sequence,side,price,volume,orders";
const tradeColumns = "time,block,position,trade_id,price,size,buyer,seller,aggressor,type";
const recorded = Buffer.concat([
  ...simulate({ ...networkDefaults, markets: 2, parties: 10, entriesPerBlock: 0, blocks: 120 }),
]);

interface Level {
  readonly price: string;
  readonly volume: string;
  readonly numberOfOrders: string;
}

interface Depth {
  readonly buy: readonly Level[];
  readonly sell: readonly Level[];
  readonly decimalPlaces: string;
  readonly positionDecimalPlaces: string;
}

let folder: string;
let network: ServiceProcess;
let venue: ServiceProcess;
let marketId: string;

async function getJson<T>(url: string): Promise<T> {
  const response = await fetch(url);
  expect(response.status, url).toBe(200);
  return (await response.json()) as T;
}

async function serve(recording: Uint8Array): Promise<ServiceProcess> {
  const { url } = newDatabaseUrl();
  await loadRecording(url, recording);
  const service = new ServiceProcess(url, await freePort());
  await service.start();
  return service;
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "marketd-changes-"));
  network = await serve(recorded);
  const list = await getJson<{ marketsData: { market: string }[] }>(`${network.url}/markets/data`);
  marketId = list.marketsData[0]?.market ?? "";
  const recording = new VenueRecording();
  recording.define({ code: "GOLD" });
  recording.snapshot({ bids: [level("10", "1.5")], asks: [level("10.5", "2")], sequenceNumber: 1n });
  recording.delta({ bids: [level("10.1", "1")], sequenceNumber: 2n });
  recording.delta({ bids: [level("10.2", "1")], sequenceNumber: 9n });
  recording.snapshot({ bids: [level("12", "1")], asks: [level("14", "1")], sequenceNumber: 20n });
  recording.define({ code: "GOLD", priceDecimals: 4 });
  recording.snapshot({ bids: [level("12", "1")], asks: [level("14", "1")], sequenceNumber: 30n });
  recording.delta({ asks: [level("14", "0"), level("13.9999", "0.5", 3n)], sequenceNumber: 31n });
  venue = await serve(recording.bytes());
});

afterAll(async () => {
  await network?.kill();
  await venue?.kill();
  await rm(folder, { recursive: true, force: true });
});

/** Rows of a file, in columns. */
function rowsOf(csv: string, expected = columns): string[][] {
  const [header, ...lines] = csv.trimEnd().split("\n");
  expect(header).toBe(expected);
  return lines.map((line) => line.split(","));
}

/** The book after all rows up to a block, as `price volume orders`, by side. */
function fold(rows: readonly string[][], height = Number.POSITIVE_INFINITY) {
  const book = { buy: new Map<string, string>(), sell: new Map<string, string>() };
  for (const [, block, , side, price = "", volume = "", orders = ""] of rows) {
    if (Number(block) > height) break;
    const levels = side === "buy" ? book.buy : book.sell;
    if (Number(volume) === 0 && orders === "0") levels.delete(price);
    else levels.set(price, `${price} ${volume} ${orders}`);
  }
  return { buy: [...book.buy.values()].sort(), sell: [...book.sell.values()].sort() };
}

/** The book of a response, in the same form. */
function bookOf({ buy, sell, decimalPlaces, positionDecimalPlaces }: Depth) {
  const text = ({ price, volume, numberOfOrders }: Level) =>
    `${scaled(price, Number(decimalPlaces), "")} ${scaled(volume, Number(positionDecimalPlaces), "")} ${numberOfOrders}`;
  return { buy: buy.map(text).sort(), sell: sell.map(text).sort() };
}

async function exported(service: ServiceProcess, file: string, ...args: string[]) {
  const path = join(folder, file);
  const ending = await runToEnd(["export", "--server", service.url, "--out", path, ...args]);
  expect([ending.error, ending.code]).toEqual(["", 0]);
  const bytes = readFileSync(path);
  const [summary = "", sum] = String(ending.out).split("\n");
  expect(sum).toBe(`SHA-256 ${createHash("sha256").update(bytes).digest("hex")}`);
  const rows = rowsOf(String(file.endsWith(".gz") ? gunzipSync(bytes) : bytes));
  const blocks = new Set(rows.map(([, , sequence]) => sequence)).size;
  const [, told, toldBlocks, gaps] = /: ([0-9]+) rows of ([0-9]+) blocks, ([0-9]+) gaps$/.exec(summary) ?? [];
  expect([Number(told), Number(toldBlocks)]).toEqual([rows.length, blocks]);
  return { rows, gaps: Number(gaps), path };
}

let allChanges: ReturnType<typeof exported> | undefined;

/** All changes of the market, exported once. */
function whole(): ReturnType<typeof exported> {
  allChanges ??= exported(network, "all.csv.gz", "--market", marketId);
  return allChanges;
}

describe("export --market", () => {
  it("is, folded, the book at each block", async () => {
    const { rows, gaps } = await whole();
    expect(gaps).toBe(0);
    expect(rows.length).toBeGreaterThan(300);
    const heights = [...new Set(rows.map(([, block]) => block))];
    for (const height of heights.filter((_, index) => index % 10 === 0 || index === heights.length - 1)) {
      const depth = await getJson<Depth>(`${network.url}/api/v2/market/depth/${marketId}/at?blockHeight=${height}`);
      expect(fold(rows, Number(height)), `block ${height}`).toEqual(bookOf(depth));
    }
  });

  it("holds a part, from the whole book on", async () => {
    const { rows } = await whole();
    const [from = "", until = ""] = [0.4, 0.6].map((part) => rows[Math.floor(rows.length * part)]?.[0] ?? "");
    const part = await exported(network, "part.csv", "--market", marketId, "--from", from, "--until", until);
    const last = part.rows.at(-1);
    expect(last?.[0] !== undefined && last[0] < until).toBe(true);
    expect(fold(part.rows)).toEqual(fold(rows, Number(last?.[1])));
    const within = (all: readonly string[][]) => all.filter(([time = ""]) => time > from && time < until);
    expect(within(part.rows)).toEqual(within(rows));
  });

  it("holds nothing if its end is before all that is kept", async () => {
    const { rows } = await exported(network, "none.csv", "--market", marketId, "--until", "1970-01-02");
    expect(rows).toEqual([]);
  });

  it("scales by the decimals of the time, tells of gaps, and removes what vanished meanwhile", async () => {
    const { rows, gaps } = await exported(venue, "gold.csv", "--market", "gold");
    const lines = (block: number) => rows.filter((row) => row[1] === String(block)).map((row) => row.slice(3).join());
    expect(lines(2)).toEqual(["buy,10.00,1.500,0", "sell,10.50,2.000,0"]);
    expect(lines(3)).toEqual(["buy,10.10,1.000,0"]);
    expect(lines(4)).toEqual([]);
    expect(lines(5).sort()).toEqual([
      ...["buy,10.00,0,0", "buy,10.10,0,0", "buy,12.00,1.000,0"],
      ...["sell,10.50,0,0", "sell,14.00,1.000,0"],
    ]);
    expect(lines(8).sort()).toEqual(["sell,13.9999,0.500,3", "sell,14.0000,0,0"]);
    expect(fold(rows)).toEqual({ buy: ["12.0000 1.000 0"], sell: ["13.9999 0.500 3"] });
    expect(rows[0]?.[0]).toMatch(/^1970-01-01T00:00:0[12]\.000000000Z$/);
    // Before the first snapshot, after the missing delta, and with new decimals.
    expect(gaps).toBeGreaterThanOrEqual(2);
  });

  it("goes on after broken connections with the same rows", async () => {
    const { rows } = await whole();
    let broken = 0;
    const proxy = createServer((incoming, outgoing) => {
      const { method, headers, url } = incoming;
      const forwarded = request(new URL(url ?? "", network.url), { method, headers }, (response) => {
        outgoing.writeHead(response.statusCode ?? 0, response.headers);
        let bytes = 0;
        response.on("data", (piece: Buffer) => {
          bytes += piece.length;
          if (broken < 3 && bytes > 10_000 && url?.endsWith("/ReplayMarketsDepth")) {
            broken++;
            response.destroy();
            outgoing.destroy();
          } else outgoing.write(piece);
        });
        response.on("end", () => outgoing.end());
      });
      incoming.pipe(forwarded);
    }).listen(0, "127.0.0.1");
    await once(proxy, "listening");
    const path = join(folder, "broken.csv");
    const server = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const ending = await runToEnd(["export", "--server", server, "--market", marketId, "--out", path]);
    expect([ending.code, broken]).toEqual([0, 3]);
    expect(ending.error).toContain("trying again");
    expect(rowsOf(readFileSync(path, "utf8"))).toEqual(rows);
    proxy.closeAllConnections();
    proxy.close();
  });

  it("writes to standard output, and leaves no part of a file that failed", async () => {
    const { rows } = await whole();
    const output = await runToEnd(["export", "--server", network.url, "--market", marketId, "--out", "-"]);
    expect(rowsOf(String(output.out))).toEqual(rows);
    expect(output.error).toMatch(/^marketd: -: [0-9]+ rows of [0-9]+ blocks, 0 gaps\nmarketd: SHA-256 [0-9a-f]{64}\n$/);
    const path = join(folder, "failed.csv");
    const args = ["--market", marketId, "--until", "2100-01-01", "--out", path];
    const failed = await runToEnd(["export", "--server", network.url, ...args]);
    expect([failed.code, existsSync(path), readdirSync(folder).filter((name) => name.includes(".part"))]).toEqual([
      ...[1, false, []],
    ]);
  });

  it("is read by DuckDB", { timeout: installMaxMs }, async (context) => {
    if (python === undefined) return context.skip("there is no Python");
    const { rows, path } = await whole();
    const script = join(folder, "read.py");
    writeFileSync(
      script,
      `import duckdb, sys
exact = {"time": "TIMESTAMP_NS", "price": "DECIMAL(38,10)", "volume": "DECIMAL(38,10)"}
file = duckdb.read_csv(sys.argv[1], dtype=exact)
sums = "count(*), count(DISTINCT block), sum(orders), max(stream_sequence), max(epoch_ns(time)), sum(price)::VARCHAR"
print(*duckdb.sql(f"SELECT {sums} FROM file").fetchall()[0])
`,
    );
    try {
      await run([python, "-m", "venv", "duck"], folder);
      const pip = join(folder, "duck/bin/pip");
      await run([pip, "install", "--quiet", "duckdb"], folder, { PIP_DISABLE_PIP_VERSION_CHECK: "1" });
    } catch (error) {
      if (!isOffline(error)) throw error;
      process.stderr.write("skipped: DuckDB reads an export (its package cannot be reached)\n");
      return context.skip("DuckDB cannot be reached");
    }
    const sums = await run([join(folder, "duck/bin/python"), script, path], folder);
    const orders = rows.reduce((sum, row) => sum + Number(row[6]), 0);
    const blocks = new Set(rows.map((row) => row[1])).size;
    const last = rows.at(-1);
    const places = 10;
    const prices = rows.reduce((sum, [, , , , price = ""]) => {
      const [whole = "", fraction = ""] = price.split(".");
      return sum + BigInt(whole + fraction.padEnd(places, "0"));
    }, 0n);
    const expected = [rows.length, blocks, orders, last?.[2], nanoseconds(last?.[0] ?? ""), scaled(prices, places, "")];
    expect(sums.trim()).toBe(expected.join(" "));
  });

  it.each([[[]], [["--trades"]]])("with %j a first connection that breaks is opened again", async (args) => {
    const direct = join(folder, `direct-${args}.csv`);
    await runToEnd(["export", "--server", network.url, "--market", marketId, ...args, "--out", direct]);
    const balancer = await TcpBalancer.before(Number(new URL(network.url).port));
    const server = `http://127.0.0.1:${balancer.port}`;
    // Of what the server sends.
    for (const bytes of [0, 300]) {
      const path = join(folder, `broken-${args}${bytes}.csv`);
      balancer.breakNext(bytes, bytes);
      const ending = await runToEnd(["export", "--server", server, "--market", marketId, ...args, "--out", path]);
      expect(ending.code, ending.error).toBe(0);
      expect(ending.error).toMatch(/^(marketd: .*; trying again\n){2}$/);
      expect(readFileSync(path).equals(readFileSync(direct))).toBe(true);
    }
    await balancer.close();
  });

  it.each<[args: string[], error: RegExp]>([
    [["--trades", "--party", "p", "--asset", "a"], /^marketd: --trades goes with --market\n/],
    [["--market", "m"], /^marketd: --market needs --out FILE\n/],
    [["--market", "m", "--party", "p", "--out", "f"], /^marketd: --market takes --from and --until, and nothing of/],
    [["--party", "p", "--asset", "a", "--from", "2023-01-01"], /^marketd: --from and --until go with --market\n/],
    [["--market", "m", "--out", "f", "--from", "2023", "--until", "2022-01-01"], /^marketd: .*--from.* It looks like/],
    [["--market", "m", "--out", "f", "--from", "2023-01-02", "--until", "2023-01-01"], /--from is after --until\n/],
    [["--market", "m", "--out", ""], /--out <file>.*It takes the name of a file, or - for standard output/],
    [["--party", "p", "--asset", "a", "--out", ""], /--out <file>.*It takes the name of a file/],
  ])("%j is refused", async (args, error) => {
    const ending = await runToEnd(["export", ...args]);
    expect(ending.error).toMatch(error);
    expect(ending.code).toBe(2);
  });
});

describe("export --market --trades", () => {
  const types = ["", "default", "network_close_out_good", "network_close_out_bad"];
  const positions = new Map<bigint, number>();
  const expected = () =>
    all.filter(({ marketId: of }) => of === marketId).map(({ time, rest }) => `${time},${rest}`.split(","));
  const all = tradesOf(recorded).map(({ trade, height, timeNs }) => {
    const position = positions.get(height) ?? 0;
    positions.set(height, position + 1);
    const time = `${instant(String(timeNs)).replace(" ", "T")}Z`;
    // In an auction nobody was the aggressor.
    const side = trade.aggressor === Side.UNSPECIFIED ? "" : trade.aggressor === Side.BUY ? "buy" : "sell";
    const { id, price, size, buyer, seller } = trade;
    const rest = `${height},${position},${id},${price},${size},${buyer},${seller},${side},${types[trade.type]}`;
    return { marketId: trade.marketId, time, rest };
  });

  async function exportedTrades(server: string, file: string, ...args: string[]) {
    const path = join(folder, file);
    const ending = await runToEnd(["export", "--server", server, "--out", path, "--trades", "--market", ...args]);
    expect([ending.error, ending.code]).toEqual(["", 0]);
    const bytes = readFileSync(path);
    const rows = rowsOf(String(file.endsWith(".gz") ? gunzipSync(bytes) : bytes), tradeColumns);
    const sum = createHash("sha256").update(bytes).digest("hex");
    expect(String(ending.out)).toBe(`${path}: ${rows.length} rows\nSHA-256 ${sum}\n`);
    return rows;
  }

  it("has the trades of the market, in the order of the network", async () => {
    const rows = await exportedTrades(network.url, "trades.csv.gz", marketId);
    expect(rows.length).toBeGreaterThan(100);
    expect(rows).toEqual(expected());
    const [from = "", until = ""] = [rows[40]?.[0], rows[80]?.[0]];
    const part = await exportedTrades(network.url, "part.csv", marketId, "--from", from, "--until", until);
    expect(part).toEqual(rows.filter(([time = ""]) => time >= from && time < until));
    const head = await exportedTrades(network.url, "head.csv", marketId, "--until", until);
    expect(head).toEqual(rows.filter(([time = ""]) => time < until));
  });

  it.each([[], ["--trades"]])("says that --from is after the newest block %j", async (...kind) => {
    const path = join(folder, "future.csv");
    const args = ["export", "--server", network.url, "--market", marketId, ...kind, "--from", "2200-01-01"];
    const ending = await runToEnd([...args, "--out", path]);
    expect(ending.error).toMatch(/^marketd: --from is after the newest block of \S+, which is of 20\d\d-\S+Z\n$/);
    expect([ending.code, existsSync(path)]).toEqual([1, false]);
  });

  it("asks again where a page breaks off, and quotes what a server says", async () => {
    let pages = 0;
    const node = create(TradeSchema, { id: 'a,"b"\u001b[2J\n', price: "5", size: 7n, buyer: "b", timestamp: 1n });
    const server = await LyingServer.start();
    server.lies.set(
      "/GetMarket",
      unary(GetMarketResponseSchema, () => ({ market: { id: "m" } })),
    );
    server.lies.set("/ListTrades", (response, request) => {
      pages++;
      const cursor = numberCursors("trades").encode(BigInt(pages));
      const page = { edges: [{ node, cursor }], pageInfo: { hasNextPage: pages === 2, endCursor: cursor } };
      const respond =
        pages % 2 === 1
          ? failure(503, "unavailable", "not now")
          : unary(ListTradesResponseSchema, () => ({ trades: page }));
      respond(response, request);
    });
    const path = join(folder, "odd.csv");
    const args = ["export", "--server", server.url, "--market", "m", "--trades", "--until", "2100-01-01"];
    const ending = await runToEnd([...args, "--out", path]);
    server.close();
    expect([ending.code, pages]).toEqual([0, 4]);
    expect(ending.error).toBe("marketd: not now; trying again\nmarketd: not now; trying again\n");
    const line = (position: number) =>
      `1970-01-01T00:00:00.000000001Z,0,${position},"a,""b""\ufffd[2J\ufffd",5,7,b,,,\n`;
    expect(readFileSync(path, "utf8")).toBe(`${tradeColumns}\n${line(2)}${line(4)}`);
  });
});
