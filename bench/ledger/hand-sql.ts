import type { AccountDirectory } from "../../src/ledger/account-directory.js";
import { type AccountSide, type Branch, type LedgerFilter, selectEntries } from "../../src/ledger/selection.js";

/** A page of the list, in SQL that a person would write. */
export interface HandRange {
  readonly low: bigint;
  readonly high: bigint;
  readonly descending: boolean;
  readonly limit: number;
}

const columns = `e.id, e.time_ns, e.quantity, e.transfer_type, e.from_balance, e.to_balance,
  f.party_id AS from_party, f.asset_id AS asset, f.market_id AS from_market, f.type AS from_type,
  t.party_id AS to_party, t.market_id AS to_market, t.type AS to_type`;
const joins = "JOIN account f ON f.account_id = e.from_account JOIN account t ON t.account_id = e.to_account";

/**
 * Ways to write the SQL of one page by hand, each the best for some filter. The person who writes it knows the store by
 * heart: the numbers of the accounts and classes that the filter means stand in the text already.
 */
export function handStatements(
  directory: AccountDirectory,
  filter: LedgerFilter,
  range: HandRange,
): Map<string, string> {
  const selection = selectEntries(directory, filter);
  const statements = new Map<string, string>();
  const order = range.descending ? "DESC" : "ASC";
  const ids = (table: string) => `${table}id >= ${range.low} AND ${table}id <= ${range.high}`;
  const page = (table: string) => `ORDER BY ${table}id ${order} LIMIT ${range.limit}`;
  statements.set(
    "scan",
    `SELECT STRAIGHT_JOIN ${columns} FROM ledger_entry e FORCE INDEX (PRIMARY) ${joins}
     WHERE ${ids("e.")} AND ${condition(filter)} ${page("e.")}`,
  );
  if (selection.kind === "all") return statements;
  const { branches } = selection;
  if (branches.length === 0) {
    statements.set("union", `SELECT ${columns} FROM ledger_entry e ${joins} WHERE FALSE`);
    return statements;
  }
  const [only] = branches;
  if (branches.length === 1 && only !== undefined && only.other === undefined) {
    statements.set(
      "one range",
      `SELECT STRAIGHT_JOIN ${columns} FROM ledger_entry e FORCE INDEX (ledger_entry_${only.index}) ${joins}
       WHERE ${where(only, "e.")} AND ${ids("e.")} ${page("e.")}`,
    );
    return statements;
  }
  const joined = (keys: string) =>
    `SELECT STRAIGHT_JOIN ${columns} FROM (${keys}) k JOIN ledger_entry e ON e.id = k.id ${joins} ORDER BY e.id ${order}`;
  const key = (branch: Branch) =>
    `FROM ledger_entry FORCE INDEX (ledger_entry_${branch.index}) WHERE ${where(branch, "")}`;
  if (branches.length <= 200) {
    const parts = branches.map((branch) => `(SELECT id ${key(branch)} AND ${ids("")} ${page("")})`);
    statements.set("ranges", joined(`${parts.join(" UNION ")} ${page("")}`));
  }
  const unioned = (["class", "from", "to"] as const).flatMap((index) => {
    const own = branches.filter((branch) => branch.index === index);
    if (own.length === 0) return [];
    return [
      `SELECT id FROM ledger_entry FORCE INDEX (ledger_entry_${index}) WHERE ${unionCondition(index, own)} AND ${ids("")}`,
    ];
  });
  statements.set("union", joined(`${unioned.map((part) => `(${part})`).join(" UNION ")} ${page("")}`));
  return statements;
}

function where(branch: Branch, table: string): string {
  const account = branch.index === "class" ? "" : `${table}${branch.index}_account = ${branch.accountId} AND `;
  const otherSide = branch.index === "from" ? "to" : "from";
  const other = branch.other === undefined ? "" : ` AND ${table}${otherSide}_account = ${branch.other}`;
  return `${account}${table}class_id = ${branch.classId}${other}`;
}

function unionCondition(index: Branch["index"], branches: readonly Branch[]): string {
  const classes = `class_id IN (${[...new Set(branches.map(({ classId }) => classId))].join(",")})`;
  if (index === "class") return classes;
  const accounts = [...new Set(branches.map(({ accountId }) => accountId))].join(",");
  const others = new Set(branches.flatMap(({ other }) => other ?? []));
  const otherSide = index === "from" ? "to" : "from";
  const other = others.size === 0 ? "" : ` AND ${otherSide}_account IN (${[...others].join(",")})`;
  return `${index}_account IN (${accounts}) AND ${classes}${other}`;
}

function condition(filter: LedgerFilter): string {
  const from = filter.from && sideCondition("f", filter.from);
  const to = filter.to && sideCondition("t", filter.to);
  const accounts =
    from === undefined || to === undefined ? (from ?? to ?? "TRUE") : `(${from} ${filter.closed ? "AND" : "OR"} ${to})`;
  const types = filter.transferTypes.length === 0 ? "" : ` AND e.transfer_type IN (${filter.transferTypes.join(",")})`;
  return `${accounts}${types}`;
}

function sideCondition(table: string, side: AccountSide): string {
  const quoted = (values: readonly string[]) => values.map((value) => `'${value}'`).join(",");
  const parts = [
    ...(side.partyId === undefined ? [] : [`${table}.party_id = '${side.partyId}'`]),
    ...(side.assetId === undefined ? [] : [`${table}.asset_id = '${side.assetId}'`]),
    ...(side.marketIds.length === 0 ? [] : [`${table}.market_id IN (${quoted(side.marketIds)})`]),
    ...(side.types.length === 0 ? [] : [`${table}.type IN (${side.types.join(",")})`]),
  ];
  return `(${parts.join(" AND ")})`;
}
