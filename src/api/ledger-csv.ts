import { createHash } from "node:crypto";
import type { DescEnum } from "@bufbuild/protobuf";
import { AccountTypeSchema, TransferTypeSchema } from "../../gen/vega/vega_pb.js";
import type { AccountDirectory } from "../ledger/account-directory.js";
import { type EntryText, parseEntry } from "../ledger/entry-row.js";
import type { LedgerExport } from "../ledger/ledger-export.js";

/** The first line of every export. */
export const csvHeader =
  "vega_time,quantity,effect,transfer_type,asset_id,account_from_market_id,account_from_party_id," +
  "account_from_account_type,account_from_balance,account_to_market_id,account_to_party_id," +
  "account_to_account_type,account_to_balance\r\n";

/** The approximate size of a piece of CSV in bytes: it ends with the row that exceeds this. */
export const csvPieceBytes = 64 * 1024;

/** Accounts whose texts are cached, for each side; a system account can have very many counterparties. */
export const accountTextsMax = 10_000;

/** The texts of accounts by their numbers, in the columns of either side. */
interface AccountTexts {
  readonly from: Map<number, string>;
  readonly to: Map<number, string>;
}

/** All exports of a store share them: a slow reader would hold its own for long. */
const textsOf = new WeakMap<AccountDirectory, AccountTexts>();

/** The names of what summarises a complete CSV, which must be known before it. */
export const csvFactNames = ["rows", "sumOfEffects", "sha256"] as const;

/** Writes the CSV of one export (RFC 4180), and computes its summary. */
export class LedgerCsv {
  readonly #hash = createHash("sha256");
  readonly #texts: AccountTexts;
  readonly #sum = new ExactSum();
  #rows = 0;
  readonly #clock = new UtcText();

  constructor(private readonly source: LedgerExport) {
    this.#texts = textsOf.get(source.directory) ?? { from: new Map(), to: new Map() };
    textsOf.set(source.directory, this.#texts);
  }

  header(): Buffer {
    return this.#piece(csvHeader);
  }

  /**
   * The next piece of rows from number `start` on: about {@link csvPieceBytes}, whole rows. `next` is the start of the
   * following piece.
   */
  piece(rows: readonly EntryText[], start: number): { readonly bytes: Buffer; readonly next: number } {
    let text = "";
    let next = start;
    for (let row = rows[next]; row !== undefined && text.length < csvPieceBytes; row = rows[++next]) {
      text += this.#line(row);
    }
    this.#rows += next - start;
    return { bytes: this.#piece(text), next };
  }

  /** The summary; the hash is of all bytes, in lower-case hexadecimal. Call it once, at the end. */
  facts(): Record<(typeof csvFactNames)[number], string> {
    return { rows: `${this.#rows}`, sumOfEffects: `${this.#sum.total()}`, sha256: this.#hash.digest("hex") };
  }

  /** Rows are ASCII, so characters are bytes. */
  #piece(text: string): Buffer {
    const bytes = Buffer.from(text, "latin1");
    this.#hash.update(bytes);
    return bytes;
  }

  #line(entry: EntryText): string {
    const { from, to, classId, timeNs, quantity, fromBalance, toBalance } = parseEntry(entry);
    const time = this.#clock.of(timeNs);
    const effect = this.#effect(from, to, quantity);
    const type = transferTypeText(this.source.directory.entryClass(classId).transferType);
    return `${time},${quantity},${effect},${type},${this.#from(from)}${fromBalance},${this.#to(to)}${toBalance}\r\n`;
  }

  #effect(from: number, to: number, quantity: string): string {
    const sent = this.source.owns(from);
    if (sent === this.source.owns(to) || quantity === "0") return "0";
    this.#sum.add(quantity, sent);
    return sent ? `-${quantity}` : quantity;
  }

  #from(id: number): string {
    return remembered(this.#texts.from, id, () => {
      const { kind, partyId } = this.source.directory.account(id);
      return `${csvField(kind.assetId)},${csvField(kind.marketId)},${csvField(partyId)},${accountTypeText(kind.type)},`;
    });
  }

  #to(id: number): string {
    return remembered(this.#texts.to, id, () => {
      const { kind, partyId } = this.source.directory.account(id);
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

/** Two digits, for hours, minutes and seconds. */
const twoDigits = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, "0"));
const secondDigits = 9;
const secondNs = 1_000_000_000n;
const daySeconds = 86_400;

/** RFC 3339 in UTC with all nine digits of the nanosecond. The text of a day is kept for the next time. */
export class UtcText {
  #day = Number.NaN;
  #dayText = "";

  /** Of Unix nanoseconds, as decimal text. */
  of(timeNs: string): string {
    const [seconds, nanoseconds] = splitTime(timeNs);
    const day = Math.floor(seconds / daySeconds);
    if (day !== this.#day) {
      this.#day = day;
      this.#dayText = new Date(day * daySeconds * 1_000).toISOString().slice(0, 11);
    }
    const rest = seconds - day * daySeconds;
    const minutes = Math.floor(rest / 60);
    const [hour, minute, second] = [twoDigits[Math.floor(minutes / 60)], twoDigits[minutes % 60], twoDigits[rest % 60]];
    return `${this.#dayText}${hour}:${minute}:${second}.${nanoseconds}Z`;
  }
}

/** Whole seconds, rounded down, and the nine digits after them. */
function splitTime(timeNs: string): [seconds: number, nanoseconds: string] {
  const point = timeNs.length - secondDigits;
  if (point > 0 && !timeNs.startsWith("-")) return [Number(timeNs.slice(0, point)), timeNs.slice(point)];
  const ns = BigInt(timeNs);
  const nanoseconds = ((ns % secondNs) + secondNs) % secondNs;
  return [Number((ns - nanoseconds) / secondNs), String(nanoseconds).padStart(secondDigits, "0")];
}

const transferTypeText = enumText(TransferTypeSchema);
const accountTypeText = enumText(AccountTypeSchema);

/** Names without the prefix that all values of the enum share; a number without a name remains a number. */
function enumText(schema: DescEnum): (value: number) => string {
  const prefix = schema.sharedPrefix?.toUpperCase() ?? "";
  const names = new Map(schema.values.map(({ number, name }) => [number, name.slice(prefix.length)]));
  return (value) => names.get(value) ?? String(value);
}
