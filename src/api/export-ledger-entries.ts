import { create, fromJson, type JsonObject } from "@bufbuild/protobuf";
import { anyPack, StructSchema } from "@bufbuild/protobuf/wkt";
import { type ExportLedgerEntriesRequest, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { HttpBodySchema } from "../../gen/google/api/httpbody_pb.js";
import { blockHeaders } from "../domain/block-headers.js";
import { readDateRange } from "../domain/date-range.js";
import type { EncodedResponse } from "../domain/encoded-response.js";
import { Failure } from "../domain/failure.js";
import { requireIdentifier } from "../domain/identifier.js";
import { type Call, type ResponseStream, type StreamMethod, serverStreaming } from "../domain/service.js";
import { MessageResponse } from "../encoding/message-response.js";
import { clientFailure } from "../encoding/status.js";
import type { EntryText } from "../ledger/entry-row.js";
import { type ExportSubject, exportBatchRows, LedgerExport } from "../ledger/ledger-export.js";
import type { LedgerReader } from "../ledger/ledger-reader.js";
import type { Log } from "../telemetry/log.js";
import { csvFactNames, LedgerCsv } from "./ledger-csv.js";

type Body = typeof HttpBodySchema;

const contentType = "text/csv";

/** Batches of entries that are held at most, including the one that is being written. */
export const batchesMax = 2;

/** Entries in one batch of each open export of a process, about: where many are open, their batches are smaller. */
export const exportRowsMax = 120_000;

/** The smallest batch, as a part of the usual one: many small statements cost more. */
const batchShareMin = 24;

/** Pieces that one `take` returns; the reader writes them at once. */
export const piecesPerTakeMax = 4;

/** ExportLedgerEntries: all entries of a party and an asset as a CSV file, in pieces. */
export function exportLedgerEntries(options: {
  readonly ledger: LedgerReader;
  readonly log: Log;
  /** The approximate number of entries in a batch. */
  readonly batchRows?: number;
  /** Default: {@link exportRowsMax}. */
  readonly rowsMax?: number;
}): StreamMethod {
  const { ledger, log, batchRows = exportBatchRows, rowsMax = exportRowsMax } = options;
  const open = new Set<ExportStream>();
  const nextRows = () => Math.min(batchRows, Math.max(batchRows / batchShareMin, rowsMax / open.size));
  return serverStreaming(
    TradingDataService.method.exportLedgerEntries,
    async (request: ExportLedgerEntriesRequest, call: Call): Promise<ResponseStream<Body>> => {
      const subject: ExportSubject = {
        partyId: requireIdentifier("party_id", request.partyId),
        assetId: requireIdentifier("asset_id", request.assetId),
        time: readDateRange(request.dateRange),
      };
      const source = await LedgerExport.open(ledger, subject, call, batchRows);
      return new ExportStream(source, subject, call, { log, open, nextRows });
    },
  );
}

/** Nobody sees it. Without a reason, the platform would make an exception with a stack. */
const readerLeft = new Failure("cancelled", "the reader left", { reason: "CLIENT_LEFT" });

/** What the exports of a process share. */
interface SharedByExports {
  readonly log: Log;
  readonly open: Set<ExportStream>;
  /** The approximate number of entries in the next batch of each. */
  readonly nextRows: () => number;
}

class ExportStream implements ResponseStream<Body> {
  readonly headers: ReadonlyMap<string, string>;
  readonly trailerNames = csvFactNames.map((name) => `export-${kebab(name)}`);
  readonly #trailers = new Map<string, string>();
  readonly #source: LedgerExport;
  readonly #csv: LedgerCsv;
  readonly #shared: SharedByExports;
  readonly #gone = new AbortController();
  readonly #call: Call;
  /** Messages besides the pieces: the first and the last. */
  readonly #ready: EncodedResponse<Body>[] = [];
  readonly #batches: (readonly EntryText[])[] = [];
  /** The next entry of the first batch. */
  #at = 0;
  #listener: (() => void) | undefined;
  #reading = false;
  /** No more entries will come. */
  #exhausted = false;
  #complete = false;
  #failure: Failure | undefined;

  constructor(source: LedgerExport, subject: ExportSubject, call: Call, shared: SharedByExports) {
    this.#source = source;
    this.#csv = new LedgerCsv(source);
    this.#shared = shared;
    shared.open.add(this);
    const { clientAddress, requestHeaders } = call;
    this.#call = { signal: this.#gone.signal, clientAddress, requestHeaders };
    const facts = subjectFacts(source, subject);
    this.headers = new Map([
      ["content-disposition", `attachment; filename="${fileName(subject)}"`],
      ...Object.entries(facts).map(([name, value]) => [`export-${kebab(name)}`, value] as const),
      ...Object.entries(blockHeaders(source.newestBlock)),
    ]);
    const extension = pack(facts);
    this.#ready.push(
      new MessageResponse(
        HttpBodySchema,
        create(HttpBodySchema, { contentType, data: this.#csv.header(), extensions: [extension] }),
      ),
    );
    this.#fill();
  }

  get trailers(): ReadonlyMap<string, string> {
    return this.#trailers;
  }

  get ended(): boolean {
    return (
      this.#failure !== undefined ||
      this.#gone.signal.aborted ||
      (this.#complete && this.#ready.length === 0 && this.#batches.length === 0)
    );
  }

  get failure(): Failure | undefined {
    return this.#failure;
  }

  take(): readonly EncodedResponse<Body>[] {
    if (this.#failure !== undefined || this.#gone.signal.aborted) return [];
    const taken = this.#ready.splice(0);
    while (taken.length < piecesPerTakeMax) {
      const rows = this.#batches[0];
      if (rows === undefined) break;
      const { bytes, next } = this.#csv.piece(rows, this.#at);
      taken.push(new MessageResponse(HttpBodySchema, create(HttpBodySchema, { contentType, data: bytes })));
      this.#at = next;
      if (next >= rows.length) {
        this.#batches.shift();
        this.#at = 0;
        this.#fill();
      }
    }
    if (this.#exhausted && this.#batches.length === 0) taken.push(...this.#finish());
    return taken;
  }

  onReady(listener: () => void): void {
    this.#listener = listener;
  }

  close(): void {
    this.#shared.open.delete(this);
    this.#gone.abort(readerLeft);
    this.#ready.length = 0;
    this.#batches.length = 0;
  }

  /** Reads a batch if another one may be held and none is being read. */
  #fill(): void {
    if (this.#reading || this.#exhausted || this.ended || this.#batches.length >= batchesMax) return;
    this.#reading = true;
    this.#source
      .next(this.#call, this.#shared.nextRows())
      .then((rows) => {
        if (rows.length === 0) this.#exhausted = true;
        else if (!this.#gone.signal.aborted) this.#batches.push(rows);
      })
      .catch((error: unknown) => {
        if (!this.#gone.signal.aborted) this.#failure = clientFailure(error, this.#shared.log);
      })
      .finally(() => {
        this.#reading = false;
        this.#fill();
        this.#listener?.();
      });
  }

  /** Returns the last message, once. */
  #finish(): EncodedResponse<Body>[] {
    if (this.#complete) return [];
    this.#complete = true;
    const facts = this.#csv.facts();
    for (const [name, value] of Object.entries(facts)) this.#trailers.set(`export-${kebab(name)}`, value);
    return [new MessageResponse(HttpBodySchema, create(HttpBodySchema, { contentType, extensions: [pack(facts)] }))];
  }
}

/** 64-bit numbers as text, because a Struct's numbers are floating point. */
function subjectFacts(source: LedgerExport, { partyId, assetId, time }: ExportSubject): Record<string, string> {
  return {
    partyId,
    assetId,
    ...(time.startNs === undefined ? {} : { startTimestamp: `${time.startNs}` }),
    ...(time.endNs === undefined ? {} : { endTimestamp: `${time.endNs}` }),
    newestBlock: `${source.newestBlock?.height ?? 0n}`,
    newestBlockTimestamp: `${source.newestBlock?.timeNs ?? 0n}`,
  };
}

function pack(facts: JsonObject) {
  return anyPack(StructSchema, fromJson(StructSchema, facts));
}

function kebab(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/**
 * Identifiers are free text, so characters that do not belong in a file name are replaced. The extensions have the
 * exact ones.
 */
function fileName({ partyId, assetId }: ExportSubject): string {
  const plain = (text: string) => text.replaceAll(/[^A-Za-z0-9._-]/g, "_").slice(0, 64);
  return `ledger-${plain(partyId)}-${plain(assetId)}.csv`;
}
