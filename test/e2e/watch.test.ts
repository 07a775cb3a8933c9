import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { Market_TradingMode, MarketSchema } from "../../gen/vega/markets_pb.js";
import { Side } from "../../gen/vega/vega_pb.js";
import { scaled } from "../../src/domain/decimal-text.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { partnerProgram } from "../support/partners.js";
import { RecordingBuilder } from "../support/recording.js";
import { marketdProgram, runToEnd, startMarketd } from "../support/run-marketd.js";
import { escapeKey, Terminal } from "../support/terminal.js";
import { ServiceProcess } from "./service-process.js";

/* The live order book in a terminal, and as lines, against a real service that is killed and started again. */

const python = partnerProgram("python");
const market = "6d4f1c0000000000000000000000000000000000000000000000000000000001";
const otherMarket = "6d4f1d0000000000000000000000000000000000000000000000000000000002";
/** Without market data, as a venue's market is. */
const quietMarket = "quiet-market";
const staleMarket = "stale-market";
const places = { price: 2, size: 3 };
/** More digits than a double holds. */
const largeSize = 2n ** 63n - 1n;
const firstBlockNs = BigInt(Date.now() - 60_000) * 1_000_000n;
const poll = { timeout: 20_000, interval: 50 };
const inverse = `${escapeKey}[7m`;
const style = (codes: string, text: string) => new RegExp(`${escapeKey}\\[${codes}m${text}`);

let folder: string;
let databaseUrl: string;
let service: ServiceProcess;
let terminal: Terminal;
const recording = new RecordingBuilder();
let height = 0;

async function loadBlock(fill: (recording: RecordingBuilder) => unknown): Promise<void> {
  recording.block(++height, firstBlockNs + BigInt(height) * 1_000_000_000n, fill);
  await loadRecording(databaseUrl, recording.bytes());
}

interface Level {
  readonly price: string;
  readonly volume: string;
  readonly numberOfOrders: string;
}

async function depth(): Promise<{ buy: Level[]; sell: Level[]; sequenceNumber: string }> {
  const response = await fetch(`${service.url}/api/v2/market/depth/${market}/latest`);
  return (await response.json()) as { buy: Level[]; sell: Level[]; sequenceNumber: string };
}

/** The levels that a ladder of so many lines shows, from the top: price, size, cumulative size, orders. */
async function expectedLadder(levels: number): Promise<string[]> {
  const { buy, sell } = await depth();
  const rows = (side: Level[]) => {
    let sum = 0n;
    return side.slice(0, levels).map(({ price, volume, numberOfOrders }) => {
      sum += BigInt(volume);
      const size = (value: string | bigint) => scaled(value, places.size, ",");
      return [scaled(price, places.price, ","), size(volume), size(sum), numberOfOrders].join(" ");
    });
  };
  return [...rows(sell).reverse(), ...rows(buy)];
}

/** The levels on the screen, their columns one space apart, without bars. */
function shownLadder(lines: readonly string[]): string[] {
  const isLevel = (line: string) => /^ *[0-9,]+\.[0-9]{2} /.test(line);
  return lines.filter(isLevel).map((line) => line.replaceAll("█", "").trim().replaceAll(/ +/g, " "));
}

function open(rows: number, columns: number, args: readonly string[] = [], env: NodeJS.ProcessEnv = {}): Terminal {
  const command = [process.execPath, marketdProgram, "watch", market, "--server", service.url, ...args];
  terminal = new Terminal(python ?? "", rows, columns, command, env);
  return terminal;
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "marketd-watch-"));
  databaseUrl = newDatabaseUrl().url;
  service = new ServiceProcess(databaseUrl, await freePort());
  const definition = {
    decimalPlaces: BigInt(places.price),
    positionDecimalPlaces: BigInt(places.size),
    // What a network calls a market must not reach the terminal as it is.
    tradableInstrument: { instrument: { code: "BTC/USD", name: "Bitcoin \u001b[31mred\u0007" } },
  };
  await loadBlock((r) => {
    r.market(market, definition).market(otherMarket);
    r.market(quietMarket, { tradableInstrument: { instrument: { code: "BCHSV", name: "Bitcoin SV" } } });
    r.order({ id: "quiet", marketId: quietMarket, price: "5", remaining: 1n, size: 1n });
    for (let n = 0; n < 30; n++) {
      r.order({ id: `b${n}`, marketId: market, price: String(4_200_000 - n), remaining: BigInt(n + 1), size: 99n });
      r.order({
        id: `s${n}`,
        marketId: market,
        price: String(4_200_101 + n),
        remaining: 7n,
        size: 9n,
        side: Side.SELL,
      });
    }
    r.order({ id: "large", marketId: market, price: "4200001", remaining: largeSize, size: largeSize });
    r.marketData({ market, marketTradingMode: Market_TradingMode.MONITORING_AUCTION });
    r.marketData({ market: otherMarket });
    // A venue's market before its first snapshot is stale.
    const venue = { marketId: staleMarket, code: "XMR-USDT", priceDecimals: 2, sizeDecimals: 3 };
    r.venue({ case: "marketDefinition", value: venue });
  });
  await service.start();
});

afterEach(() => terminal?.kill());

afterAll(async () => {
  await service.kill();
  await rm(folder, { recursive: true, force: true });
});

describe.skipIf(python === undefined)("watch on a terminal", () => {
  it("shows what the market is, and the levels that fit, exactly and around the spread", async () => {
    open(25, 100);
    await vi.waitFor(async () => expect(shownLadder(terminal.lines)).toEqual(await expectedLadder(10)), poll);
    const { sequenceNumber } = await depth();
    // The mode and the block come from requests of their own, which may end after the first message of the stream.
    const facts = new RegExp(`^monitoring auction · block 1 · [0-9]+ (s|min) old · sequence ${sequenceNumber}$`);
    await vi.waitFor(() => expect(terminal.lines[1]).toMatch(facts), poll);
    expect(terminal.written).not.toContain("unspecified");
    const [title, , hint, headings] = terminal.lines;
    expect(title).toBe(`BTC/USD · Bitcoin \ufffd[31mred\ufffd (${market})`);
    expect(hint).toBe("q ends");
    expect(headings?.trim().split(/ +/)).toEqual(["price", "size", "total", "orders"]);
    expect(terminal.lines[14]).toMatch(/^─+ mid 42,000\.51 · spread 1\.00$/);
    expect(terminal.lines.join("\n")).toContain("9,223,372,036,854,775.807");
    expect(terminal.lines.length).toBeLessThanOrEqual(25);
  });

  it("takes the size that the terminal gets, and leaves out what is too wide", async () => {
    open(13, 100);
    await vi.waitFor(async () => expect(shownLadder(terminal.lines)).toEqual(await expectedLadder(4)), poll);
    terminal.resize(31, 100);
    await vi.waitFor(async () => expect(shownLadder(terminal.lines)).toEqual(await expectedLadder(13)), poll);
    terminal.resize(9, 40);
    await vi.waitFor(() => {
      expect(shownLadder(terminal.lines)).toHaveLength(4);
      expect(terminal.lines[3]?.trim().split(/ +/)).toEqual(["price", "size"]);
      for (const line of terminal.lines) expect([...line].length).toBeLessThanOrEqual(40);
    }, poll);
  });

  it("shows at most --max-depth levels", async () => {
    open(40, 100, ["--max-depth", "2"]);
    await vi.waitFor(async () => expect(shownLadder(terminal.lines)).toEqual(await expectedLadder(2)), poll);
  });

  it("follows changes, which flash", async () => {
    open(25, 100);
    await vi.waitFor(() => expect(shownLadder(terminal.lines)).toHaveLength(20), poll);
    expect(terminal.written).not.toContain(inverse);
    await loadBlock((r) =>
      r.order({ id: "new", marketId: market, price: "4200050", remaining: 12_345n, size: 12_345n }),
    );
    // Until the new block is served, both show the book before it.
    await vi.waitFor(() => expect(terminal.written).toMatch(style("7", " *42,000\\.50 +12\\.345 ")), poll);
    await vi.waitFor(async () => expect(shownLadder(terminal.lines)).toEqual(await expectedLadder(10)), poll);
    const flashing = () => terminal.written.lastIndexOf(inverse);
    await vi.waitFor(() => expect(terminal.written.slice(flashing())).toMatch(style("32", " *42,000\\.50 ")), poll);
  });

  describe("of a market that trades", () => {
    const traded = "traded-market";
    const trade = (id: string, price: string, size: bigint, aggressor: Side) => {
      return { id, marketId: traded, price, size, aggressor, buyer: "b", seller: "s" };
    };
    const openAt = (url: string, columns: number) => {
      const command = [process.execPath, marketdProgram, "watch", traded, "--server", url];
      terminal = new Terminal(python ?? "", 25, columns, command, {});
    };
    /** The trades on the screen: what stands beside the ladder. */
    const shownTrades = () =>
      terminal.lines.flatMap(
        (line) => / {4,}([0-9]{2}:[0-9]{2}:[0-9]{2} .*)$/.exec(line)?.[1]?.replace(/ +/g, " ") ?? [],
      );
    const timeOf = (block: number) => {
      return new Date(Number((firstBlockNs + BigInt(block) * 1_000_000_000n) / 1_000_000n)).toISOString().slice(11, 19);
    };
    let first: number;

    beforeAll(async () => {
      await loadBlock((r) => {
        r.market(traded, { decimalPlaces: 2n, positionDecimalPlaces: 3n });
        r.order({ id: "bid", marketId: traded, price: "4200000", remaining: 1n, size: 1n });
        r.trade(trade("t1", "4200000", 1_500n, Side.BUY)).trade(trade("t2", "4200001", 2n, Side.SELL));
      });
      first = height;
    });

    it("shows its newest trades beside the book, in the colour of the aggressor, and follows them", async () => {
      openAt(service.url, 100);
      const before = [`${timeOf(first)} 42,000.01 0.002`, `${timeOf(first)} 42,000.00 1.500`];
      await vi.waitFor(() => expect(shownTrades()).toEqual(before), poll);
      expect(terminal.lines[3]).toMatch(/price +size +total +orders +time \(UTC\) +price +size$/);
      expect(terminal.written).toMatch(style("31", ` *${timeOf(first)} +42,000\\.01 +0\\.002`));
      expect(terminal.written).toMatch(style("32", ` *${timeOf(first)} +42,000\\.00 +1\\.500`));
      await loadBlock((r) => r.trade(trade("t3", "4200100", 12_000n, Side.BUY)));
      await vi.waitFor(() => expect(shownTrades()).toEqual([`${timeOf(height)} 42,001.00 12.000`, ...before]), poll);
      // The ladder does not give way to them.
      terminal.resize(25, 50);
      await vi.waitFor(() => {
        expect(terminal.lines[3]?.trim().split(/ +/)).toEqual(["price", "size", "total", "orders"]);
        expect(shownTrades()).toEqual([]);
      }, poll);
    });

    it("shows the book alone where the server tells no trades", async () => {
      let asked = 0;
      const proxy = createServer((incoming, outgoing) => {
        if (incoming.url?.endsWith("/ObserveTrades")) {
          asked++;
          outgoing.writeHead(404).end();
          return;
        }
        const { method, headers, url } = incoming;
        const forwarded = request(new URL(url ?? "", service.url), { method, headers }, (response) => {
          outgoing.writeHead(response.statusCode ?? 0, response.headers);
          response.pipe(outgoing);
        });
        forwarded.on("error", () => outgoing.destroy());
        outgoing.on("close", () => forwarded.destroy());
        incoming.pipe(forwarded);
      }).listen(0, "127.0.0.1");
      await once(proxy, "listening");
      openAt(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, 100);
      await vi.waitFor(() => {
        expect(shownLadder(terminal.lines)).toHaveLength(1);
        expect(asked).toBe(1);
      }, poll);
      expect([terminal.lines[2], shownTrades()]).toEqual(["q ends", []]);
      expect(terminal.lines.join()).not.toContain("time (UTC)");
      proxy.closeAllConnections();
      proxy.close();
    });

    it("shows no trades of other decimals", async () => {
      const value = create(MarketSchema, { id: traded, decimalPlaces: 4n, positionDecimalPlaces: 3n });
      openAt(service.url, 100);
      await vi.waitFor(() => expect(shownTrades().length).toBeGreaterThan(1), poll);
      await loadBlock((r) => r.event({ case: "marketUpdated", value }));
      await vi.waitFor(() => expect(shownTrades()).toEqual([]), poll);
      await loadBlock((r) => r.trade(trade("t4", "420000000", 5n, Side.SELL)));
      const after = [`${timeOf(height)} 42,000.0000 0.005`];
      await vi.waitFor(() => expect(shownTrades()).toEqual(after), poll);
      // Also where it has to look for the first of them.
      openAt(service.url, 100);
      await vi.waitFor(() => expect(shownTrades()).toEqual(after), poll);
    });
  });

  it("says since when it is stale while the server is away, and heals", async () => {
    open(25, 100);
    await vi.waitFor(() => expect(terminal.lines[2]).toBe("q ends"), poll);
    await service.kill();
    const stale = /^stale since [0-9]{2}:[0-9]{2}:[0-9]{2} UTC \([0-9]+ s\): .+; trying again$/;
    await vi.waitFor(() => expect(terminal.lines[2]).toMatch(stale), poll);
    expect(shownLadder(terminal.lines)).toHaveLength(20);
    await loadBlock((r) => r.order({ id: "late", marketId: market, price: "4200060", remaining: 5n, size: 5n }));
    await service.start();
    await vi.waitFor(async () => {
      expect(terminal.lines[2]).toBe("q ends");
      expect(shownLadder(terminal.lines)).toEqual(await expectedLadder(10));
    }, poll);
  });

  it("shows no colours with NO_COLOR", async () => {
    open(25, 100, [], { NO_COLOR: "1" });
    await vi.waitFor(async () => expect(shownLadder(terminal.lines)).toEqual(await expectedLadder(10)), poll);
    expect(terminal.written).not.toMatch(style("[0-9;]*", ""));
  });

  const crash = () => {
    const file = join(folder, "crash.mjs");
    writeFileSync(file, "process.on('SIGUSR2', () => { throw new Error('crashed on purpose'); });\n");
    return { NODE_OPTIONS: `--import=${file}` };
  };

  it.each<[how: string, end: () => void, code: number, env?: () => NodeJS.ProcessEnv]>([
    ["q", () => terminal.press("q"), 0],
    ["Ctrl-C", () => terminal.press("\u0003"), 130],
    ["SIGINT", () => terminal.signal(2), 130],
    ["SIGTERM", () => terminal.signal(15), 0],
    ["a crash", () => terminal.signal(12), 1, crash],
  ])("gives the terminal back after %s", async (_, end, code, env) => {
    open(25, 100, [], env?.());
    await vi.waitFor(() => expect(shownLadder(terminal.lines)).toHaveLength(20), poll);
    expect([terminal.isFull, terminal.showsCursor]).toEqual([true, false]);
    end();
    expect(await terminal.ended()).toBe(code);
    expect([terminal.isFull, terminal.showsCursor]).toEqual([false, true]);
    expect(shownLadder(terminal.lines)).toEqual([]);
    expect(terminal.written).toContain(`${escapeKey}[?7h`);
    if (env !== undefined) expect(terminal.lines.join("\n")).toContain("crashed on purpose");
  });

  it("gives the terminal back while it is stopped by Ctrl-Z", async () => {
    open(25, 100);
    await vi.waitFor(() => expect(shownLadder(terminal.lines)).toHaveLength(20), poll);
    terminal.press("\u001a");
    await vi.waitFor(() => expect(terminal.isFull).toBe(false), poll);
    terminal.signal(18);
    await vi.waitFor(async () => {
      expect(terminal.isFull).toBe(true);
      expect(shownLadder(terminal.lines)).toEqual(await expectedLadder(10));
    }, poll);
  });
});

describe("watch without a terminal", () => {
  const line = (sequence: string, bid: string, bidSize: string) =>
    new RegExp(
      `^[0-9T:.-]+Z sequence=${sequence} bid=${bid} bidSize=${bidSize} ask=42001\\.01 askSize=0\\.007 spread=[0-9.]+ bids=[0-9]+ asks=30$`,
    );

  it("writes a line for each change, tells on standard error of an outage, and goes on", async () => {
    const { child, ending, error } = startMarketd(["watch", market.slice(0, 6), "--server", service.url]);
    let out = "";
    child.stdout?.on("data", (text) => {
      out += String(text);
    });
    const lines = () => out.split("\n").slice(0, -1);
    await vi.waitFor(() => expect(lines()).toHaveLength(1), poll);
    await loadBlock((r) => r.order({ id: "more", marketId: market, price: "4200070", remaining: 1n, size: 1n }));
    const { sequenceNumber } = await vi.waitFor(async () => {
      expect(lines()).toHaveLength(2);
      return await depth();
    }, poll);
    expect(lines()[1]).toMatch(line(sequenceNumber, "42000\\.70", "0\\.001"));
    await service.kill();
    await vi.waitFor(() => expect(error()).toMatch(/^marketd: stale since .+; trying again\n$/), poll);
    await service.start();
    // It goes on where it broke: nothing has changed until this block.
    await loadBlock((r) => r.order({ id: "next", marketId: market, price: "4200080", remaining: 1n, size: 1n }));
    await vi.waitFor(() => expect(lines()).toHaveLength(3), poll);
    expect(lines()[2]).toMatch(line((await depth()).sequenceNumber, "42000\\.80", "0\\.001"));
    child.kill("SIGTERM");
    expect((await ending).code).toBe(0);
  });

  it("tells of an outage of a replay once, however often it tries again", async () => {
    const command = startMarketd(["watch", market, "--server", service.url, "--replay", "1000x"]);
    let out = "";
    command.child.stdout?.on("data", (text) => {
      out += String(text);
    });
    await vi.waitFor(async () => expect(out).toContain(`sequence=${(await depth()).sequenceNumber} `), poll);
    const lines = out.split("\n").length;
    await service.kill();
    await vi.waitFor(() => expect(command.error()).toMatch(/; trying again\n/), poll);
    // Several attempts, 0.25 s apart and longer.
    await sleep(3_000);
    await service.start();
    await loadBlock((r) => r.order({ id: "again", marketId: market, price: "4200090", remaining: 1n, size: 1n }));
    await vi.waitFor(() => expect(out.split("\n").length).toBeGreaterThan(lines), poll);
    expect(command.error()).toMatch(/^marketd: stale since [^\n]+; trying again\n$/);
    command.child.kill("SIGTERM");
    expect((await command.ending).code).toBe(0);
  });

  it("scales by a market's new decimals from the first line in them on", async () => {
    const id = "6d4f1e0000000000000000000000000000000000000000000000000000000003";
    const order = { id: "scaled", marketId: id, price: "10050", remaining: 1n, size: 1n };
    await loadBlock((r) => r.market(id, { decimalPlaces: 2n }).order(order));
    const { child, ending } = startMarketd(["watch", id, "--server", service.url]);
    let out = "";
    child.stdout?.on("data", (text) => {
      out += String(text);
    });
    const bids = () => [...out.matchAll(/ bid=(\S+) /g)].map(([, bid]) => bid);
    await vi.waitFor(() => expect(bids()).toEqual(["100.50"]), poll);
    const value = create(MarketSchema, { id, decimalPlaces: 4n });
    await loadBlock((r) => r.event({ case: "marketUpdated", value }).order({ ...order, price: "1005000" }));
    await vi.waitFor(() => expect(bids()).toEqual(["100.50", "100.5000"]), poll);
    child.kill("SIGTERM");
    expect((await ending).code).toBe(0);
  });

  it("shows the past in the decimals of its time, and plays it until it is the present", async () => {
    const id = "6d4f1f0000000000000000000000000000000000000000000000000000000004";
    const order = { id: "past", marketId: id, price: "10050", remaining: 1n, size: 1n };
    const timeNs = () => String(firstBlockNs + BigInt(height) * 1_000_000_000n);
    const iso = (time: string) => new Date(Number(BigInt(time) / 1_000_000n)).toISOString();
    await loadBlock((r) => r.market(id, { decimalPlaces: 2n }).order(order));
    const before = timeNs();
    const value = create(MarketSchema, { id, decimalPlaces: 4n });
    await loadBlock((r) => r.event({ case: "marketUpdated", value }).order({ ...order, price: "1005000" }));
    const after = timeNs();
    // The service may not have read that block yet.
    const text = (at: string) => runToEnd(["watch", id, "--at", at, "--server", service.url]);
    for (const [at, price] of [
      [before, /^ *100\.50 /m],
      [after, /^ *100\.5000 /m],
    ] as const) {
      await vi.waitFor(async () => expect(String((await text(at)).out)).toMatch(price), poll);
    }
    const { child, ending } = startMarketd(["watch", id, "--at", before, "--replay", "10x", "--server", service.url]);
    let out = "";
    child.stdout?.on("data", (piece) => {
      out += String(piece);
    });
    const bids = () => [...out.matchAll(/^(\S+) .* bid=(\S+) /gm)].map(([, time, bid]) => `${time} ${bid}`);
    const played = [`${iso(before)} 100.50`, `${iso(after)} 100.5000`];
    await vi.waitFor(() => expect(bids()).toEqual(played), poll);
    await loadBlock((r) => r.order({ ...order, id: "live", price: "1006000" }));
    await vi.waitFor(() => expect(bids()).toEqual([...played, `${iso(timeNs())} 100.6000`]), poll);
    child.kill("SIGTERM");
    expect((await ending).code).toBe(0);
  });

  it("prints the book once", async () => {
    const { code, out, error } = await runToEnd([
      "watch",
      market,
      "--once",
      "--server",
      service.url,
      "--max-depth",
      "3",
    ]);
    expect([code, error]).toEqual([0, ""]);
    const lines = String(out).split("\n");
    expect(lines[0]).toBe(`BTC/USD · Bitcoin \ufffd[31mred\ufffd (${market})`);
    expect(shownLadder(lines)).toEqual(await expectedLadder(3));
  });

  it.each([
    ["btc/usd", market],
    ["Bitcoin \u001b[31mred\u0007", market],
    ["bchsv", quietMarket],
  ])("finds a market by its code or name: %j", async (name, id) => {
    const { code, out, error } = await runToEnd(["watch", name, "--once", "--server", service.url]);
    expect([code, error]).toEqual([0, ""]);
    expect(String(out).split("\n")[0]).toMatch(new RegExp(`\\(${id}\\)$`));
  });

  it("ends when nobody reads it any more", async () => {
    const script = `"${process.execPath}" "${marketdProgram}" watch ${market} --server ${service.url} | head -n 1; echo "\${PIPESTATUS[0]}"`;
    const child = spawn("bash", ["-c", script], { stdio: ["ignore", "pipe", "inherit"] });
    let out = "";
    child.stdout.on("data", (text) => {
      out += String(text);
    });
    await vi.waitFor(() => expect(out).toContain("\n"), poll);
    await loadBlock((r) => r.order({ id: "tail", marketId: market, price: "1", remaining: 1n, size: 1n }));
    await once(child, "close");
    expect(out).toMatch(/^\S+Z sequence=.*\n0\n$/);
  });

  it.each<[args: string[], code: number, error: RegExp]>([
    [["watch", "none"], 1, /^marketd: http:\S+ has no market "none"; it has ("\S+" ?(\(.*\))?,? ?)+\n$/],
    [
      ["watch", "6d4f"],
      2,
      /^marketd: [0-9] markets begin with "6d4f"; give the id of one: "6d4f\S+" \("BTC.*, "6d4f\S+".*\n$/,
    ],
    [["watch", "a\u0007"], 1, /^marketd: http:\S+ has no market "a\ufffd"; it has .*\n$/],
    [
      ["watch", market, "--server", "http://127.0.0.1:1"],
      3,
      /^marketd: http:\/\/127\.0\.0\.1:1: connect ECONNREFUSED .*\n$/,
    ],
    [["watch", "xmr-usdt", "--once"], 3, /^marketd: http:\S+: market stale-market is stale.*\n$/],
    [["watch"], 2, /^marketd: missing required argument 'market'\n/],
    [["watch", market, "--at", "2100-01-01"], 1, /^marketd: http:\S+: that is beyond the newest block/],
    [["watch", market, "--replay", "0x"], 2, /It takes 0\.01x to 1000x, such as 10x\.\n/],
    [["watch", market, "--replay", "2x", "--once"], 2, /^marketd: --once shows one book, --replay many\n/],
    [["watch", market, "--server", "127.0.0.1:8080"], 2, /It looks like http:\/\/127\.0\.0\.1:8080 or https:/],
  ])("%j ends with %i", async (args, code, error) => {
    const server = args.includes("--server") ? [] : ["--server", service.url];
    const ending = await runToEnd([...args, ...server]);
    expect(ending.error).toMatch(error);
    expect(ending).toMatchObject({ code, out: Buffer.alloc(0) });
  });
});
