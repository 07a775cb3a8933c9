/** A stored entry. Numbers that may exceed 53 bits are decimal text, and never converted twice. */
export interface EntryRow {
  readonly id: string;
  readonly from: number;
  readonly to: number;
  readonly classId: number;
  /** Block time in Unix nanoseconds. */
  readonly timeNs: string;
  readonly quantity: string;
  readonly fromBalance: string;
  readonly toBalance: string;
}

const columns = [
  "id",
  "from_account",
  "to_account",
  "class_id",
  "time_ns",
  "quantity",
  "from_balance",
  "to_balance",
] as const;

/** An entry as one text column, for {@link parseEntry}. The driver reads one column faster than eight. */
export function entrySql(table = "", before = ""): string {
  return `CONCAT_WS(' ', ${before}${columns.map((name) => table + name).join(", ")})`;
}

/** Parses the value of {@link entrySql}; columns that are absent at the end are empty. */
export function parseEntry(text: string): EntryRow {
  const [id = "", from, to, classId, timeNs = "", quantity = "", fromBalance = "", toBalance = ""] = text.split(" ");
  return { id, from: Number(from), to: Number(to), classId: Number(classId), timeNs, quantity, fromBalance, toBalance };
}

/** Orders ids, which have no leading zeros. */
export function compareIds(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  return a === b ? 0 : a < b ? -1 : 1;
}

/** The rows in the direction of a scan, without duplicates. */
export function inOrder(rows: readonly EntryRow[], descending: boolean): EntryRow[] {
  const sorted = rows.toSorted((a, b) => (descending ? compareIds(b.id, a.id) : compareIds(a.id, b.id)));
  return sorted.filter(({ id }, i) => sorted[i - 1]?.id !== id);
}
