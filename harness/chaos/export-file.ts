import { createHash } from "node:crypto";
import type { DescEnum } from "@bufbuild/protobuf";
import { AccountTypeSchema, TransferTypeSchema } from "../../gen/vega/vega_pb.js";
import type { Account, Fold, LedgerRow } from "./fold.js";

const header =
  "vega_time,quantity,effect,transfer_type,asset_id,account_from_market_id,account_from_party_id," +
  "account_from_account_type,account_from_balance,account_to_market_id,account_to_party_id,account_to_account_type," +
  "account_to_balance";

/** An export as a client has put it together, with what it says of itself. */
export interface ExportFile {
  readonly csv: Buffer;
  /** By the names of docs/api.md. */
  readonly facts: ReadonlyMap<string, string>;
}

/** Whether a file is what the ledger held at a block, whole. @returns what is wrong with it */
export function exportProblem(
  file: ExportFile,
  party: string,
  asset: string,
  fold: Fold,
  height: number,
): string | undefined {
  const expected = expectedFile(fold, party, asset, height);
  const rows = file.csv.toString("latin1").split("\r\n").length - 2;
  if (!file.csv.equals(Buffer.from(expected.text, "latin1"))) {
    return `${rows} rows, where block ${height} has ${expected.rows}${rows === expected.rows ? ", others" : ""}`;
  }
  const sha256 = createHash("sha256").update(file.csv).digest("hex");
  const summary = { rows: String(expected.rows), sumOfEffects: String(expected.sum), sha256 };
  for (const [name, value] of Object.entries(summary)) {
    if (file.facts.get(name) !== value) return `${name} is ${file.facts.get(name)}, where ${value} is right`;
  }
  return undefined;
}

function expectedFile(fold: Fold, party: string, asset: string, height: number) {
  const end = fold.rows.count(party, height);
  const owns = (account: Account): boolean => account.party === party && account.asset === asset;
  const lines = [header];
  let sum = 0n;
  for (let place = 0; place < end; place++) {
    const row = fold.rows.row(party, place);
    if (row === undefined || !(owns(row.from) || owns(row.to))) continue;
    const effect = effectOf(row, owns(row.from), owns(row.to));
    sum += effect;
    lines.push(lineOf(row, effect));
  }
  return { text: `${lines.join("\r\n")}\r\n`, rows: lines.length - 1, sum };
}

function effectOf({ quantity }: LedgerRow, sends: boolean, receives: boolean): bigint {
  if (sends === receives) return 0n;
  return sends ? -BigInt(quantity) : BigInt(quantity);
}

function lineOf(row: LedgerRow, effect: bigint): string {
  const { from, to } = row;
  return [
    timeText(row.timeNs),
    row.quantity,
    effect,
    enumName(TransferTypeSchema, "TRANSFER_TYPE_", row.type),
    from.asset,
    from.market,
    from.party,
    enumName(AccountTypeSchema, "ACCOUNT_TYPE_", from.type),
    row.fromBalance,
    to.market,
    to.party,
    enumName(AccountTypeSchema, "ACCOUNT_TYPE_", to.type),
    row.toBalance,
  ].join(",");
}

function timeText(timeNs: bigint): string {
  const seconds = new Date(Number(timeNs / 1_000_000_000n) * 1000).toISOString().slice(0, 19);
  return `${seconds}.${String(timeNs % 1_000_000_000n).padStart(9, "0")}Z`;
}

function enumName(schema: DescEnum, prefix: string, number: number): string {
  return schema.value[number]?.name.slice(prefix.length) ?? String(number);
}
