import { createHash } from "node:crypto";
import type { DescEnum } from "@bufbuild/protobuf";
import { AccountTypeSchema, TransferTypeSchema } from "../../gen/vega/vega_pb.js";
import type { EntryRow } from "../ledger/entry-row.js";
import type { LedgerExport } from "../ledger/ledger-export.js";

/** The first line of every export. */
export const csvHeader =
  "vega_time,quantity,effect,transfer_type,asset_id,account_from_market_id,account_from_party_id," +
  "account_from_account_type,account_from_balance,account_to_market_id,account_to_party_id," +
  "account_to_account_type,account_to_balance\r\n";

/** The approximate size of a piece of CSV in bytes: it ends with the row that exceeds this. */
export const csvPieceBytes = 64 * 1024;

/** Accounts whose text a writer caches; a system account can have very many counterparties. */
export const accountTextsMax = 10_000;

/** The summary of a complete CSV. */
export interface CsvFacts {
  readonly rows: bigint;
  /** Of the effects: signed, exact. */
  readonly sum: bigint;
  /** Lower-case hexadecimal, of all bytes. */
  readonly sha256: string;
}

/** Writes the CSV of one export (RFC 4180), and computes its summary. */
export class LedgerCsv {
  readonly #source: LedgerExport;
  readonly #hash = createHash("sha256");
  readonly #fromTexts = new Map<number, string>();
  readonly #toTexts = new Map<number, string>();
  readonly #sum = new ExactSum();
  #rows = 0;
  #timeNs = "";
  #timeText = "";

  constructor(source: LedgerExport) {
    this.#source = source;
  }

  header(): Buffer {
    return this.#piece(csvHeader);
  }

  /**
   * The next piece of rows from number `start` on: about {@link csvPieceBytes}, whole rows. `next` is the start of the
   * following piece.
   */
  piece(rows: readonly EntryRow[], start: number): { readonly bytes: Buffer; readonly next: number } {
    let text = "";
    let next = start;
    for (let row = rows[next]; row !== undefined && text.length < csvPieceBytes; row = rows[++next]) {
      text += this.#line(row);
    }
    this.#rows += next - start;
    return { bytes: this.#piece(text), next };
  }

  /** Call it once, at the end. */
  facts(): CsvFacts {
    return { rows: BigInt(this.#rows), sum: this.#sum.total(), sha256: this.#hash.digest("hex") };
  }

  /** Rows are ASCII, so characters are bytes. */
  #piece(text: string): Buffer {
    const bytes = Buffer.from(text, "latin1");
    this.#hash.update(bytes);
    return bytes;
  }

  #line({ from, to, classId, timeNs, quantity, fromBalance, toBalance }: EntryRow): string {
    if (timeNs !== this.#timeNs) {
      this.#timeNs = timeNs;
      this.#timeText = formatTime(BigInt(timeNs));
    }
    const effect = this.#effect(from, to, quantity);
    const type = transferTypeText(this.#source.directory.entryClass(classId).transferType);
    return `${this.#timeText},${quantity},${effect},${type},${this.#from(from)}${fromBalance},${this.#to(to)}${toBalance}\r\n`;
  }

  #effect(from: number, to: number, quantity: string): string {
    const sent = this.#source.owns(from);
    if (sent === this.#source.owns(to) || quantity === "0") return "0";
    this.#sum.add(quantity, sent);
    return sent ? `-${quantity}` : quantity;
  }

  #from(id: number): string {
    return remembered(this.#fromTexts, id, () => {
      const { kind, partyId } = this.#source.directory.account(id);
      return `${csvField(kind.assetId)},${csvField(kind.marketId)},${csvField(partyId)},${accountTypeText(kind.type)},`;
    });
  }

  #to(id: number): string {
    return remembered(this.#toTexts, id, () => {
      const { kind, partyId } = this.#source.directory.account(id);
      return `${csvField(kind.marketId)},${csvField(partyId)},${accountTypeText(kind.type)},`;
    });
  }
}

function remembered(texts: Map<number, string>, id: number, make: () => string): string {
  let text = texts.get(id);
  if (text === undefined) {
    if (texts.size >= accountTextsMax) texts.clear();
    text = make();
    texts.set(id, text);
  }
  return text;
}

/** A sum of decimal texts: short ones are added as safe integers, all of them exactly. */
class ExactSum {
  static readonly #shortDigits = 14;
  static readonly #flushAt = 2 ** 52;
  #long = 0n;
  #short = 0;

  add(digits: string, negative: boolean): void {
    if (digits.length > ExactSum.#shortDigits) {
      this.#long += negative ? -BigInt(digits) : BigInt(digits);
      return;
    }
    this.#short += negative ? -Number(digits) : Number(digits);
    if (Math.abs(this.#short) > ExactSum.#flushAt) {
      this.#long += BigInt(this.#short);
      this.#short = 0;
    }
  }

  total(): bigint {
    return this.#long + BigInt(this.#short);
  }
}

/** RFC 4180: quoted if necessary, with quotes doubled. */
function csvField(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** RFC 3339 in UTC with all nine digits of the nanosecond. */
export function formatTime(timeNs: bigint): string {
  const second = 1_000_000_000n;
  const nanoseconds = ((timeNs % second) + second) % second;
  const milliseconds = Number((timeNs - nanoseconds) / 1_000_000n);
  return `${new Date(milliseconds).toISOString().slice(0, 19)}.${String(nanoseconds).padStart(9, "0")}Z`;
}

const transferTypeText = enumText(TransferTypeSchema);
const accountTypeText = enumText(AccountTypeSchema);

/** Names without the prefix that all values of the enum share; a number without a name remains a number. */
function enumText(schema: DescEnum): (value: number) => string {
  const prefix = schema.sharedPrefix?.toUpperCase() ?? "";
  const names = new Map(schema.values.map(({ number, name }) => [number, name.slice(prefix.length)]));
  return (value) => names.get(value) ?? String(value);
}
