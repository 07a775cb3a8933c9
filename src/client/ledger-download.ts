import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { ledgerEntries } from "../../clients/typescript/src/ledger-entries.js";
import { type ExportSummary, exportLedger } from "../../clients/typescript/src/ledger-export.js";
import { isTransient, retryWaitMs } from "../../clients/typescript/src/retry.js";
import { silenceMaxMs } from "../../clients/typescript/src/stream.js";
import { type BlockHead, blockHeadOf } from "../domain/block-headers.js";
import type { TimeRange } from "../domain/date-range.js";
import { nanoseconds } from "../domain/instant.js";
import { exitNotVerified, OperatorError } from "../domain/operator-error.js";
import type { LastRows, PartFile } from "./part-file.js";
import { isBehind, reasonOf, responseMaxMs, type Server } from "./server.js";

/** The time that a slice should take, which a broken connection costs. */
const sliceMs = 5_000;
/** The factor by which slices grow or shrink at most. */
const sliceGrowthMax = 4;
/** The first slice is this part of the whole time with entries. */
const firstSliceShare = 64n;

/** Servers behind one address that are asked for a slice's rows, if they are behind the one that sent them. */
const confirmationsMax = 3;

/** Consecutive slices that may fail verification. */
const mismatchesMax = 3;
/** Consecutive attempts that may end without a complete slice, although bytes arrived. */
const attemptsMax = 100;

const lineFeed = 10;

/** The party, the asset and the block times. */
export interface LedgerSubject extends TimeRange {
  readonly partyId: string;
  readonly assetId: string;
}

/** The state of a download. Everything in it is verified. */
export interface Checkpoint {
  /** Block times below this are complete; undefined: none, or all. */
  readonly nextNs: bigint | undefined;
  readonly bytes: number;
  readonly sha256: string;
  readonly rows: bigint;
  readonly sumOfEffects: bigint;
  /** Of the newest slice with rows. */
  readonly lastRows: LastRows | undefined;
}

/** Options of a download, besides its checkpoint. */
export interface DownloadOptions {
  readonly server: Server;
  readonly subject: LedgerSubject;
  readonly part: PartFile;
  /** The download fails if the server sends nothing for this long. */
  readonly giveUpMs: number;
  readonly signal: AbortSignal;
  /** Called after each slice, before the next starts. */
  readonly onSlice: (checkpoint: Checkpoint, isLast: boolean) => Promise<void>;
  /** Called as bytes arrive; `received` includes those that are not verified yet. */
  readonly onBytes: (checkpoint: Checkpoint, received: number) => void;
  /** Called for a failure that does not end the download. */
  readonly onFailure: (reason: string) => void;
}

/** A complete download: equal to one uninterrupted export that was started at `newestBlock`. */
export interface Download extends Checkpoint {
  readonly newestBlock: BlockHead;
}

/** The ledger is not the one of the rows so far. */
export class LedgerReplaced extends Error {}

/** Fails at once if a download would. @throws ConnectError */
export async function checkExport({ client }: Server, subject: LedgerSubject, signal: AbortSignal): Promise<void> {
  // Of no time, but from the same start: the server may have dropped what was before.
  const request = requestOf(subject, subject.startNs, subject.startNs ?? 0n);
  await exportLedger(client, request, () => {}, { signal, timeoutMs: responseMaxMs });
}

/** Longer parts of a name are cut: with `.part.json.new` a name must stay below the 255 bytes that file systems take. */
const namePartMaxCharacters = 90;

/**
 * The name of a file for these entries: `ledger-PARTY-ASSET.csv`. Ids are opaque, so characters that a path could
 * interpret are replaced, and long ids are cut. A hash then keeps the names of different ids apart.
 */
export function ledgerFileName({ partyId, assetId }: Pick<LedgerSubject, "partyId" | "assetId">): string {
  const safe = (id: string) => id.replaceAll(/[^A-Za-z0-9._-]/g, "_").slice(0, namePartMaxCharacters);
  const isSame = safe(partyId) === partyId && safe(assetId) === assetId;
  const hash = createHash("sha256").update(`${partyId}\0${assetId}`).digest("hex").slice(0, 8);
  return `ledger-${safe(partyId)}-${safe(assetId)}${isSame ? "" : `-${hash}`}.csv`;
}

function requestOf({ partyId, assetId }: LedgerSubject, startNs: bigint | undefined, endNs: bigint | undefined) {
  const startTimestamp = startNs !== undefined && { startTimestamp: startNs };
  const endTimestamp = endNs !== undefined && { endTimestamp: endNs };
  return { partyId, assetId, dateRange: { ...startTimestamp, ...endTimestamp } };
}

/**
 * An export in consecutive slices of block time, so that a broken connection costs one slice. Each slice is a separate
 * export, and counts once it matches the server's summary, and the server still has the rows before it.
 *
 * Block times never decrease. So a slice is final if it ends at or before the time of the newest block at its start,
 * and only such slices are followed by another. The last one has no end, or that of the subject. Together they equal,
 * byte for byte, one export that was started at the newest block of the last slice.
 */
export class LedgerDownload {
  /** Times of the oldest and the newest entry; undefined: not known yet. */
  #extent: { readonly oldestNs: bigint; readonly newestNs: bigint } | undefined;
  #widthNs = 1n;
  #heardAt = performance.now();
  #failures = 0;
  #mismatches = 0;

  constructor(
    private readonly options: DownloadOptions,
    private checkpoint: Checkpoint,
  ) {}

  /**
   * @throws LedgerReplaced if it has to start again; ConnectError if the server is unreachable for too long;
   * OperatorError
   */
  async run(): Promise<Download> {
    const { part } = this.options;
    for (;;) {
      try {
        const extent = this.#extent ?? (await this.#askExtent());
        const newestBlock = await this.#readSlice(extent);
        if (newestBlock !== undefined) return { ...this.checkpoint, newestBlock };
      } catch (thrown) {
        await part.drop();
        await this.#waitAfter(thrown);
        this.#widthNs = atLeastOne(this.#widthNs / 2n);
      }
    }
  }

  async #askExtent() {
    const { server, subject } = this.options;
    const { partyId, assetId, startNs, endNs } = subject;
    const account = { assetId, partyIds: [partyId] };
    const filter = { fromAccountFilter: account, toAccountFilter: account };
    const { dateRange } = requestOf(subject, startNs, endNs);
    const edgeNs = async (newestFirst: boolean) => {
      const signal = AbortSignal.any([this.options.signal, AbortSignal.timeout(responseMaxMs)]);
      const query = { filter, dateRange, newestFirst, pageSize: 1, signal };
      for await (const { node } of ledgerEntries(server.client, query)) return node.timestamp;
      return undefined;
    };
    const oldestNs = (await edgeNs(false)) ?? 0n;
    const newestNs = (await edgeNs(true)) ?? oldestNs;
    this.#widthNs = atLeastOne((newestNs - oldestNs) / firstSliceShare);
    this.#extent = { oldestNs, newestNs };
    return this.#extent;
  }

  /** Reads the next slice, and returns its newest block if it was the last. */
  async #readSlice({ oldestNs, newestNs }: { oldestNs: bigint; newestNs: bigint }): Promise<BlockHead | undefined> {
    const { subject, part, onSlice, onBytes } = this.options;
    const before = this.checkpoint;
    const startNs = before.nextNs ?? subject.startNs;
    const end = (startNs !== undefined && startNs > oldestNs ? startNs : oldestNs) + this.#widthNs;
    const isLast = end >= newestNs;
    const endNs = isLast ? subject.endNs : end;
    const startedAt = performance.now();
    let skipsHeader = before.bytes > 0;
    const write = async (csv: Uint8Array) => {
      const rows = skipsHeader ? csv.subarray(csv.indexOf(lineFeed) + 1 || csv.length) : csv;
      skipsHeader &&= !csv.includes(lineFeed);
      await part.append(rows);
      onBytes(before, part.bytes);
    };
    const { summary, newestBlock } = await this.#export(startNs, endNs, write);
    if (newestBlock.timeNs < (isLast ? newestNs : end)) throw isBehind();
    // Afterwards: then the server had no other ledger when it sent the slice.
    await this.#confirmLastRows();
    this.checkpoint = {
      nextNs: endNs,
      bytes: part.bytes,
      sha256: part.sha256,
      rows: before.rows + summary.rows,
      sumOfEffects: before.sumOfEffects + summary.sumOfEffects,
      lastRows: (await part.lastRows()) ?? before.lastRows,
    };
    part.keep();
    this.#resize(performance.now() - startedAt);
    await onSlice(this.checkpoint, isLast);
    this.#heardAt = performance.now();
    this.#failures = 0;
    this.#mismatches = 0;
    return isLast ? newestBlock : undefined;
  }

  /** The width of the next slice, from the duration of this one. */
  #resize(tookMs: number): void {
    const factor = Math.min(sliceGrowthMax, Math.max(1 / sliceGrowthMax, sliceMs / tookMs));
    this.#widthNs = atLeastOne((this.#widthNs * BigInt(Math.round(factor * 100))) / 100n);
  }

  /** One request. @throws ConnectError if it fails, or nothing arrives for {@link silenceMaxMs} */
  async #export(
    startNs: bigint | undefined,
    endNs: bigint | undefined,
    write: (csv: Uint8Array) => Promise<void>,
  ): Promise<{ readonly summary: ExportSummary; readonly newestBlock: BlockHead }> {
    const { server, subject, signal } = this.options;
    const silence = new AbortController();
    const endIfSilent = () => silence.abort(new ConnectError(`no data for ${silenceMaxMs} ms`, Code.Unavailable));
    const timer = setTimeout(endIfSilent, silenceMaxMs);
    let newestBlock = { height: 0n, timeNs: 0n };
    const onHeader = (headers: Headers) => {
      const [height, timeNs] = [headers.get("export-newest-block"), headers.get("export-newest-block-timestamp")];
      newestBlock = blockHeadOf(height, timeNs) ?? newestBlock;
    };
    const writePiece = async (csv: Uint8Array) => {
      await write(csv);
      timer.refresh();
      this.#heardAt = performance.now();
    };
    // A new connection each time, because behind one address it may lead to a server with newer blocks.
    const headers = { connection: "close" };
    const options = { signal: AbortSignal.any([signal, silence.signal]), headers, onHeader };
    try {
      const summary = await exportLedger(server.client, requestOf(subject, startNs, endNs), writePiece, options);
      return { summary, newestBlock };
    } catch (thrown) {
      throw silence.signal.aborted ? silence.signal.reason : thrown;
    } finally {
      clearTimeout(timer);
    }
  }

  /** @throws LedgerReplaced unless the server still has the last rows; ConnectError if it is behind another one */
  async #confirmLastRows(): Promise<void> {
    const { lastRows, nextNs } = this.checkpoint;
    if (lastRows === undefined) return;
    const timeNs = BigInt(nanoseconds(lastRows.time) ?? 0);
    for (let attempt = 1; ; attempt++) {
      const hash = createHash("sha256");
      let skipsHeader = true;
      const { newestBlock } = await this.#export(timeNs, timeNs + 1n, async (csv) => {
        hash.update(skipsHeader ? csv.subarray(csv.indexOf(lineFeed) + 1 || csv.length) : csv);
        skipsHeader &&= !csv.includes(lineFeed);
      });
      if (hash.digest("hex") === lastRows.sha256) return;
      if (newestBlock.timeNs >= (nextNs ?? timeNs)) throw new LedgerReplaced();
      if (attempt === confirmationsMax) throw isBehind();
    }
  }

  /** @throws the error, or an OperatorError, if another attempt cannot succeed */
  async #waitAfter(thrown: unknown): Promise<void> {
    const { signal, giveUpMs, onFailure } = this.options;
    if (signal.aborted || !(thrown instanceof ConnectError) || !isTransient(thrown)) throw thrown;
    const reason = reasonOf(thrown);
    if (thrown.code === Code.DataLoss && ++this.#mismatches >= mismatchesMax) {
      throw new OperatorError(`not verified: ${reason}, ${mismatchesMax} times in a row`, exitNotVerified, thrown);
    }
    this.#failures++;
    if (performance.now() - this.#heardAt > giveUpMs || this.#failures >= attemptsMax) throw thrown;
    onFailure(reason);
    const waitMs = Math.min(giveUpMs, retryWaitMs(thrown, this.#failures));
    await sleep(waitMs, undefined, { signal }).catch(() => {});
  }
}

function atLeastOne(value: bigint): bigint {
  return value > 1n ? value : 1n;
}
