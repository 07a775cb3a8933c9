import { rm } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { type ChangeCount, changeRows, type MarketSubject } from "../client/change-rows.js";
import { findMarket } from "../client/find-market.js";
import { PartFile } from "../client/part-file.js";
import { isBroken, type Patience, patiently } from "../client/patience.js";
import { openServer, responseMaxMs, type Server, serverProblem } from "../client/server.js";
import { type TradeCount, tradeRows } from "../client/trade-rows.js";
import type { Config } from "../config.js";
import { type BlockHead, blockHeadOf } from "../domain/block-headers.js";
import { grouped } from "../domain/decimal-text.js";
import { isoInstant } from "../domain/instant.js";
import { exitInterrupted, OperatorError } from "../domain/operator-error.js";
import { stopOnSignal } from "../runtime/stop-signal.js";
import { fileAt, tell, writeOut } from "./export.js";
import { ProgressLine } from "./progress-line.js";

type MarketExport = Extract<Config<"export">, { kind: "market" }>;

/** Writes a market's trades, or the changes of its book, to a file, or to standard output. The file appears when it is complete. */
export async function exportMarket(config: MarketExport): Promise<void> {
  const server = openServer(config.server);
  const { stop } = stopOnSignal();
  const progress = new ProgressLine();
  try {
    const path = await fileAt(config.out);
    await write(server, config, path, progress, stop.signal);
  } catch (error) {
    if (stop.signal.aborted) throw new OperatorError("interrupted; nothing was written", exitInterrupted);
    throw serverProblem(error, server);
  } finally {
    progress.clear();
  }
}

async function write(
  server: Server,
  config: MarketExport,
  path: string,
  progress: ProgressLine,
  signal: AbortSignal,
): Promise<void> {
  const patience = {
    giveUpMs: config.giveUpMs,
    signal,
    onFailure: (reason: string) => tell(progress, `${reason}; trying again`),
  };
  const first = async (ended: AbortSignal) => {
    const { id } = await findMarket(server, config.market, ended);
    return [id, await newestBlock(server, id, ended)] as const;
  };
  const [marketId, newest] = await patiently(server, patience, first, isBroken);
  const until = config.until ?? (newest?.timeNs ?? 0n) + 1n;
  if (config.from !== undefined && config.from > until) {
    throw new OperatorError(`--from is after the newest block of ${server.url}, which is of ${isoInstant(until - 1n)}`);
  }
  const toFile = path !== "-";
  const partPath = toFile ? `${path}.part` : undefined;
  const part = await PartFile.create(partPath);
  const subject = { marketId, from: config.from, until, newest };
  const { rows, count, told } = (config.trades ? ofTrades : ofChanges)(server, subject, patience);
  try {
    await pipeline(rows, path.endsWith(".gz") ? createGzip() : pass, async (bytes: AsyncIterable<Uint8Array>) => {
      for await (const piece of bytes) {
        await part.append(piece);
        progress.update(() => `exporting: ${grouped(String(count.rows), ",")} rows`);
      }
    });
    progress.clear();
    if (toFile) await part.finish(path, true);
    else await part.handOn(writeOut);
    const summary = [`${config.out}: ${told()}`, `SHA-256 ${part.sha256}`];
    for (const line of summary) {
      if (toFile) process.stdout.write(`${line}\n`);
      else tell(progress, line);
    }
  } finally {
    await part.close();
    if (partPath !== undefined) await rm(partPath, { force: true });
  }
}

/** What is written, how many rows that were, and what is told of them at the end. */
interface Rows {
  readonly rows: AsyncGenerator<string>;
  readonly count: { readonly rows: number };
  readonly told: () => string;
}

function ofChanges(server: Server, subject: MarketSubject, patience: Patience): Rows {
  const count: ChangeCount = { rows: 0, blocks: 0, gaps: 0 };
  const told = () => `${count.rows} rows of ${count.blocks} blocks, ${count.gaps} gaps`;
  return { rows: changeRows(server, subject, count, patience), count, told };
}

function ofTrades(server: Server, subject: MarketSubject, patience: Patience): Rows {
  const count: TradeCount = { rows: 0 };
  return { rows: tradeRows(server, subject, count, patience), count, told: () => `${count.rows} rows` };
}

async function* pass(text: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  for await (const piece of text) yield Buffer.from(piece);
}

async function newestBlock({ client }: Server, marketId: string, signal: AbortSignal): Promise<BlockHead | undefined> {
  let newest: BlockHead | undefined;
  const onHeader = (headers: Headers) => {
    newest = blockHeadOf(headers.get("x-block-height"), headers.get("x-block-timestamp"));
  };
  await client.getMarket({ marketId }, { timeoutMs: responseMaxMs, signal, onHeader });
  return newest;
}
