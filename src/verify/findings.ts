/** The maximum number of findings that are described; all are counted. */
export const findingsListedMax = 100;

/** The maximum number of stray rows of one kind that are named. */
export const straysNamedMax = 10;

/** A difference between the database and what the loader wrote, or an impossible value. */
export interface Finding {
  readonly table: string;
  /** The block that it belongs to; undefined if that is unknown. */
  readonly block: bigint | undefined;
  readonly text: string;
}

/** What was found. */
export class Findings {
  readonly listed: Finding[] = [];
  count = 0;
  /** How many of them are in what the source stated, which was stored as it was. */
  ofSource = 0;

  add(table: string, block: bigint | undefined, text: string): void {
    this.count++;
    if (this.listed.length < findingsListedMax) this.listed.push({ table, block, text });
  }
}

/** A finding as a line. */
export function renderFinding({ table, block, text }: Finding): string {
  return `${block === undefined ? "" : `block ${block}, `}${table}: ${text}`;
}
