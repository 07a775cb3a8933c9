import type { TimeRange } from "../domain/date-range.js";
import type { Call } from "../domain/service.js";
import type { BlockPlace } from "../store/connection/store-place.js";
import { idMax } from "../store/id-range.js";
import type { AccountDirectory } from "./account-directory.js";
import type { EntryText } from "./entry-row.js";
import type { LedgerRead, LedgerReader } from "./ledger-reader.js";
import type { LedgerView } from "./ledger-view.js";
import { type ScannedEntries, type ScanState, scanEntries } from "./scan-entries.js";
import { type LedgerSelection, selectEntries } from "./selection.js";

/** The approximate number of entries in a batch; at most four times as many. */
export const exportBatchRows = 6_000;

/** A batch may hold more than this: it is what a union by density expects to find. */
const surplus = 1.15;

/** Batches of unknown density are smaller, because a merge reads up to four keys for each entry. */
const firstBatchShare = 10;

/** What is exported. */
export interface ExportSubject {
  readonly partyId: string;
  readonly assetId: string;
  readonly time: TimeRange;
}

/**
 * The entries of one party and asset, oldest first, up to the newest block when it was opened: the ledger only grows at
 * its end, so that is a consistent view without a transaction. Where entries that it still needs are dropped, it fails.
 * Holds a connection only while a batch is read.
 */
export class LedgerExport {
  /** The accounts that its entries refer to. */
  readonly directory: AccountDirectory;
  /** The place that every batch depends on; undefined: nothing has been loaded yet. */
  readonly newestBlock: BlockPlace | undefined;
  readonly #ledger: LedgerReader;
  readonly #own: ReadonlySet<number>;
  readonly #selection: LedgerSelection;
  /** The batch that was read last, until it is taken, and its end. */
  #batch: ScannedEntries;

  private constructor(ledger: LedgerReader, { result, directory, extent }: LedgerRead<FirstBatch>) {
    this.directory = directory;
    this.newestBlock = extent.newestBlock;
    this.#ledger = ledger;
    this.#own = result.own;
    this.#selection = result.selection;
    this.#batch = result.batch;
  }

  /** Also reads the first entries, so a small export is one statement. @throws Failure */
  static async open(
    ledger: LedgerReader,
    { partyId, assetId, time }: ExportSubject,
    call?: Call,
    batchRows = exportBatchRows,
  ): Promise<LedgerExport> {
    const side = { partyId, assetId, marketIds: [], types: [] };
    const opened = await ledger.read(
      call,
      time,
      async (view, directory): Promise<FirstBatch> => {
        const selection = selectEntries(directory, { from: side, to: side, closed: false, transferTypes: [] });
        const own = directory.accountsOf(partyId).filter(({ kind }) => kind.assetId === assetId);
        const rest = { low: 0n, high: idMax, descending: false };
        const batch = await readBatch(view, selection, { rest }, batchRows);
        const { start } = await view.reach();
        if (start !== undefined) view.requireKept(start, "date_range.start_timestamp");
        return { own: new Set(own.map(({ id }) => id)), selection, batch };
      },
      "export",
    );
    return new LedgerExport(ledger, opened);
  }

  /** Whether an account is the party's own, in the asset. */
  owns(account: number): boolean {
    return this.#own.has(account);
  }

  /** The next entries, about `batchRows` if they are not read yet; empty at the end. @throws Failure */
  async next(call: Call | undefined, batchRows: number): Promise<readonly EntryText[]> {
    while (this.#batch.rows.length === 0) {
      const { state } = this.#batch;
      if (state.rest.low > state.rest.high) break;
      // Only what was proven counts: a batch that was not is read again.
      this.#batch = await this.#ledger.readOn(call, this.newestBlock, async (view) => {
        const batch = await readBatch(view, this.#selection, state, batchRows);
        view.requireKept(state.rest.low);
        return batch;
      });
    }
    const { rows, state } = this.#batch;
    this.#batch = { rows: [], state };
    return rows;
  }
}

/** What an export knows at its start. */
interface FirstBatch {
  readonly own: ReadonlySet<number>;
  readonly selection: LedgerSelection;
  readonly batch: ScannedEntries;
}

function readBatch(
  view: LedgerView,
  selection: LedgerSelection,
  state: ScanState,
  batchRows: number,
): Promise<ScannedEntries> {
  const rows = state.known?.idsPerMatch === undefined ? batchRows / firstBatchShare : batchRows / surplus;
  return scanEntries(view, selection, state, Math.ceil(rows));
}
