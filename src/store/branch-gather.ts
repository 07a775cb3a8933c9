import { type EntryRow, entryColumns, type IdRange } from "./branch-merge.js";
import type { Branch } from "./ledger-selection.js";
import type { PlacedConnection } from "./placed-read.js";

/** Entries that are gathered at most where nothing is known yet: beyond, a set of branches does not count as rare. */
export const gatheredMax = 512;

interface GatheredRow extends EntryRow {
  /** Matches in the range, as far as they were counted. */
  readonly matches: bigint;
}

/**
 * The first `want` entries of the union of unrestricted branches, if in all of the range there are no more than
 * `matchesMax`; undefined: there are, or a branch is restricted. It is one statement that reads all branches of an
 * index as one list of ranges: a sixth of the cost of a statement with a part for each branch.
 */
export async function gatherBranches(
  connection: PlacedConnection,
  branches: readonly Branch[],
  range: IdRange,
  want: number,
  matchesMax = gatheredMax,
): Promise<readonly EntryRow[] | undefined> {
  if (branches.some(({ other }) => other !== undefined)) return undefined;
  const parts = gatherParts(branches, range, "id", matchesMax);
  const keys = parts.length === 1 ? parts.join("") : parts.map((part) => `(${part})`).join(" UNION ");
  const order = range.descending ? "DESC" : "ASC";
  const columns = entryColumns.replaceAll(/\w+/g, "e.$&");
  // Too many of them are told by one row, which costs less than a page in vain.
  const rows = await connection.query<GatheredRow>(
    `SELECT STRAIGHT_JOIN k.matches, ${columns} FROM (
       SELECT id, COUNT(*) OVER () AS matches, ROW_NUMBER() OVER (ORDER BY id ${order}) AS place
       FROM (${keys}) AS m ORDER BY id ${order} LIMIT ${want}
     ) AS k JOIN ledger_entry AS e ON e.id = k.id
     WHERE ${connection.holds} AND (k.matches <= ${matchesMax} OR k.place = 1) ORDER BY e.id ${order}`,
  );
  return rows[0] !== undefined && rows[0].matches > BigInt(matchesMax) ? undefined : rows;
}

/**
 * All entries of the union of unrestricted branches in a range that is expected to hold about as many as are wanted;
 * undefined: there are more than `matchesMax`. Reads the rows with the keys and leaves putting them in order to us, so
 * that the server sends them as it finds them.
 */
export async function gatherStretch(
  connection: PlacedConnection,
  branches: readonly Branch[],
  range: IdRange,
  matchesMax: number,
): Promise<readonly EntryRow[] | undefined> {
  const parts = gatherParts(branches, range, entryColumns, matchesMax, connection.holds);
  const rows = await connection.query<EntryRow>(
    parts.length === 1 ? parts.join("") : parts.map((part) => `(${part})`).join(" UNION ALL "),
  );
  const ahead = range.descending ? -1 : 1;
  rows.sort((a, b) => (a.id === b.id ? 0 : a.id < b.id ? -ahead : ahead));
  const distinct = parts.length === 1 ? rows : rows.filter(({ id }, i) => rows[i - 1]?.id !== id);
  return distinct.length > matchesMax ? undefined : distinct;
}

/** For each index, what its branches select in a range, up to one more than `matchesMax`. */
function gatherParts(
  branches: readonly Branch[],
  { low, high }: IdRange,
  columns: string,
  matchesMax: number,
  holds = "TRUE",
): string[] {
  return (["class", "from", "to"] as const).flatMap((index) => {
    const those = branches.filter((branch) => branch.index === index);
    if (those.length === 0) return [];
    return [
      `SELECT ${columns} FROM ledger_entry FORCE INDEX (ledger_entry_${index})
       WHERE ${holds} AND ${places(index, those)} AND id >= ${low} AND id <= ${high} LIMIT ${matchesMax + 1}`,
    ];
  });
}

function places(index: Branch["index"], branches: readonly Branch[]): string {
  if (index === "class") return `class_id IN (${branches.map(({ classId }) => classId).join(",")})`;
  const byAccount = new Map<number, number[]>();
  for (const { accountId, classId } of branches) {
    const classes = byAccount.get(accountId);
    if (classes === undefined) byAccount.set(accountId, [classId]);
    else classes.push(classId);
  }
  const parts = [...byAccount].map(
    ([account, classes]) => `(${index}_account = ${account} AND class_id IN (${classes.join(",")}))`,
  );
  return `(${parts.join(" OR ")})`;
}
