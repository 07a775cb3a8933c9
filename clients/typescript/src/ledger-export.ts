import type { MessageInitShape } from "@bufbuild/protobuf";
import { type CallOptions, Code, ConnectError } from "@connectrpc/connect";
import type { ExportLedgerEntriesRequestSchema } from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { quoted } from "../../../src/domain/printable.js";
import type { MarketdClient } from "./client.js";
import { Sha256 } from "./sha256.js";

/** What a file holds, as the server said and as was counted here. */
export interface ExportSummary {
  /** Ledger entries, the header line not counted. */
  readonly rows: bigint;
  /** By how much the party's holdings of the asset changed: an integer scaled by the asset's decimals. */
  readonly sumOfEffects: bigint;
  /** Of all bytes of the file, in lower-case hexadecimal. */
  readonly sha256: string;
}

/**
 * Exports the ledger entries of a party and an asset as CSV. Gives the file to `write` piece by piece, each after the
 * promise of the one before, and resolves with what the file holds. `options.onHeader` gets the file's name and the
 * newest block that it can hold (docs/api.md, "Export").
 * @throws ConnectError when the export fails, and DATA_LOSS when what arrived is not what the server says it sent; the
 *   pieces written so far are worth nothing then
 */
export async function exportLedger(
  client: MarketdClient,
  request: MessageInitShape<typeof ExportLedgerEntriesRequestSchema>,
  write: (csv: Uint8Array) => unknown,
  options: CallOptions = {},
): Promise<ExportSummary> {
  const check = new ExportCheck();
  let stated = new Headers();
  const onTrailer = (trailer: Headers) => {
    stated = trailer;
    options.onTrailer?.(trailer);
  };
  // Connect does not end the call where its messages are left before their end.
  const call = new AbortController();
  const signal = options.signal === undefined ? call.signal : AbortSignal.any([options.signal, call.signal]);
  try {
    for await (const { data } of client.exportLedgerEntries(request, { ...options, signal, onTrailer })) {
      if (data.length === 0) continue;
      check.update(data);
      await write(data);
    }
    return check.finish(stated);
  } finally {
    call.abort();
  }
}

/** The longest row that is read, in bytes; one with ids of 128 characters has less than 2 KiB. */
const rowMaxBytes = 64 * 1024;

/** Counts and hashes a CSV file as it arrives, and compares it with the server's summary. */
export class ExportCheck {
  readonly #hash = new Sha256();
  readonly #decoder = new TextDecoder();
  #rest = "";
  /** -1 for the header. */
  #rows = -1n;
  #sumOfEffects = 0n;

  /** Takes the next bytes of the file. */
  update(csv: Uint8Array): void {
    this.#hash.update(csv);
    const lines = (this.#rest + this.#decoder.decode(csv, { stream: true })).split("\r\n");
    this.#rest = lines.pop() ?? "";
    if (this.#rest.length > rowMaxBytes) throw notAsSent(`a row has more than ${rowMaxBytes} bytes`);
    for (const line of lines) {
      this.#rows++;
      // The first fields, time, quantity and effect, are never quoted; no field holds a line end.
      if (this.#rows > 0n) this.#sumOfEffects += toInteger(line.split(",", 3)[2]);
    }
  }

  /** @param stated the trailers of the response @throws ConnectError DATA_LOSS when they are missing or differ */
  finish(stated: Headers): ExportSummary {
    const counted = { rows: this.#rows, sumOfEffects: this.#sumOfEffects, sha256: this.#hash.digest() };
    compare("rows", stated.get("export-rows"), String(counted.rows));
    compare("sum of effects", stated.get("export-sum-of-effects"), String(counted.sumOfEffects));
    compare("SHA-256", stated.get("export-sha256"), counted.sha256);
    return counted;
  }
}

function compare(name: string, stated: string | null, counted: string): void {
  if (stated === counted) return;
  if (stated === null) throw new ConnectError("the export arrived without its summary", Code.DataLoss);
  throw notAsSent(`${name} ${counted} instead of ${quoted(stated)}`);
}

function toInteger(text: string | undefined): bigint {
  if (text !== undefined && /^-?[0-9]+$/.test(text)) return BigInt(text);
  throw notAsSent(`a row has the effect ${quoted(text ?? "")}`);
}

function notAsSent(difference: string): ConnectError {
  return new ConnectError(`the export arrived not as sent: ${difference}`, Code.DataLoss);
}
