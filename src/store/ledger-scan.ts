import { gatherBranches } from "./branch-gather.js";
import {
  branchTable,
  type EntryRow,
  entryColumns,
  type IdRange,
  mergeBranches,
  type ScannedEntries,
} from "./branch-merge.js";
import { gatherStretches, guessStretch } from "./branch-stretches.js";
import { SelectionMemory, type StretchGuess, type WalkStep, withScatter } from "./ledger-memory.js";
import type { Branch, LedgerSelection } from "./ledger-selection.js";
import type { PlacedConnection } from "./placed-read.js";

/** Up to so many branches are merged at once; with more, it is tried first whether all of their matches are few; */
export const branchesBeforeGather = 24;

/** with more than this, or with whole classes, which are often dense, only once a probe has met hardly any. */
export const branchesBeforeLateGather = 100;

/** Branches that a request merges at most, where its matches are too rare to be met by walking the table. */
export const branchesMax = 4_096;

/** Entries of the table that a request walks at most, whether they match or not. */
export const entriesWalkedMax = 65_536;

/** What the steps of a plan cost, in microseconds: measured, and only their ratios matter. */
const cost = { walked: 0.3, walkedMatch: 1, branch: 12, gatheredMatch: 4 } as const;

const stepMin = 256;

/** Entries that are probed at most, beside a few times the page. */
const probeMax = 1_024;

/** Entries that the first step of a page's walk is going to pass; undefined: it is not likely to be a walk. */
export function walkStepOf(memory: SelectionMemory, want: number): number | undefined {
  if (memory.entriesPerMatch === undefined) return undefined;
  return Math.min(entriesWalkedMax, Math.max(stepMin, Math.ceil(memory.entriesPerMatch * withScatter(want))));
}

/**
 * The first `want` entries of a selection in a range of ids, found the sooner for what is known from pages before, and
 * for a step of the table from where the range begins, if that has been asked for already.
 */
export async function scanEntries(
  connection: PlacedConnection,
  selection: LedgerSelection,
  range: IdRange,
  want: number,
  memory = new SelectionMemory(),
  step?: WalkStep,
): Promise<ScannedEntries> {
  if (selection.kind === "all") return whole(await readTable(connection, "TRUE", range, want));
  const { branches } = selection;
  const [only] = branches;
  if (only === undefined) return whole([]);
  if (branches.length === 1 && only.other === undefined) return whole(await readBranch(connection, only, range, want));
  const found = await scanBranches(connection, branches, range, want, memory, step);
  if (found.reached === undefined) memory.notePage(range, want, found.rows);
  return found;
}

async function scanBranches(
  connection: PlacedConnection,
  branches: readonly Branch[],
  range: IdRange,
  want: number,
  memory: SelectionMemory,
  known: WalkStep | undefined,
): Promise<ScannedEntries> {
  const isGatherable = branches.length <= branchesMax && branches.every(({ other }) => other === undefined);
  const guess = isGatherable ? memory.guess(range, want) : undefined;
  if (guess !== undefined) {
    const span = Number(range.descending ? range.high - guess.end : guess.end - range.low);
    const entries = memory.idsPerEntry === undefined ? undefined : span / memory.idsPerEntry;
    if (entries === undefined || !walkIsCheaper(branches.length, want, entries)) {
      memory.entriesPerMatch = undefined;
      return gatherStretches(connection, branches, range, want, guess);
    }
    const step = known ?? Math.max(stepMin, entries);
    return walkThenGather(connection, branches, range, want, memory, step);
  }
  if (branches.length > branchesBeforeGather && !gathersLate(branches) && !memory.isCrowded(range)) {
    const gathered = await gatherBranches(connection, branches, range, want);
    if (gathered !== undefined) return whole(gathered);
    memory.noteCrowded(range);
  }
  if (branches.length <= branchesBeforeGather) return mergeBranches(connection, branches, range, want);
  // A dense page is met within a few times its size, however many branches there are.
  const probe = Math.max(stepMin, Math.min(10 * branches.length, probeMax, 6 * want));
  return walkThenGather(connection, branches, range, want, memory, probe);
}

function gathersLate(branches: readonly Branch[]): boolean {
  return branches.length > branchesBeforeLateGather || branches.some(({ index }) => index === "class");
}

function whole(rows: readonly EntryRow[]): ScannedEntries {
  return { rows, reached: undefined };
}

/**
 * Walks a little of the table to see how dense matches are there, then goes on walking or gathers from the branches,
 * whichever is cheaper by what has been seen. What the walk found is kept.
 */
async function walkThenGather(
  connection: PlacedConnection,
  branches: readonly Branch[],
  range: IdRange,
  want: number,
  memory: SelectionMemory,
  first: WalkStep | number,
): Promise<ScannedEntries> {
  const walk = new TableWalk(connection, branchCondition(branches), range, want);
  if (typeof first === "number") await walk.step(first);
  else await walk.take(first);
  memory.idsPerEntry = walk.idsPerEntry;
  memory.entriesPerMatch = undefined;
  while (!walk.done) {
    const { missing, ahead } = walk;
    const enough = walk.walked + ahead <= entriesWalkedMax && walkIsCheaper(branches.length, missing, ahead);
    if (!enough && branches.length <= branchesMax) {
      const rare = walk.rows.length * 64 < walk.walked;
      const rest =
        rare && gathersLate(branches)
          ? await gatherThenMerge(connection, branches, walk.rest, missing)
          : await gatherStretches(connection, branches, walk.rest, missing, walk.guess);
      return { rows: [...walk.rows, ...rest.rows], reached: rest.reached };
    }
    if (walk.walked >= entriesWalkedMax) return { rows: walk.rows, reached: walk.reached };
    await walk.step(Math.max(stepMin, ahead * 1.25));
  }
  memory.entriesPerMatch = walk.entriesPerMatch;
  return whole(walk.rows);
}

/** Merges, unless there are so few matches that all of them can be fetched. */
async function gatherThenMerge(
  connection: PlacedConnection,
  branches: readonly Branch[],
  range: IdRange,
  want: number,
): Promise<ScannedEntries> {
  const gathered = await gatherBranches(connection, branches, range, want);
  return gathered === undefined ? mergeBranches(connection, branches, range, want) : whole(gathered);
}

/** A walk along the primary key that takes the entries that meet a condition. */
class TableWalk {
  readonly rows: EntryRow[] = [];
  /** What has not been walked yet. */
  rest: IdRange;
  /** Entries passed, whether they match or not. */
  walked = 0;
  /** The last id passed. */
  reached: bigint | undefined;
  done = false;
  #passed = 0n;
  readonly #connection: PlacedConnection;
  readonly #condition: string;
  readonly #want: number;

  constructor(connection: PlacedConnection, condition: string, range: IdRange, want: number) {
    this.#connection = connection;
    this.#condition = condition;
    this.#want = want;
    this.rest = range;
  }

  get missing(): number {
    return this.#want - this.rows.length;
  }

  /** Entries to pass until nothing is missing, if matches go on as they were. */
  get ahead(): number {
    return this.rows.length === 0 ? Number.POSITIVE_INFINITY : (this.missing * this.walked) / this.rows.length;
  }

  /** How long a stretch must be to hold what is missing, if matches go on as they were; undefined: there was none. */
  get guess(): StretchGuess | undefined {
    if (this.rows.length === 0) return undefined;
    return guessStretch(this.rest, this.missing, Number(this.#passed) / this.rows.length);
  }

  /** How many ids an entry takes, places between blocks included. */
  get idsPerEntry(): number {
    return Number(this.#passed) / this.walked;
  }

  /** How many entries a match takes; undefined: there was none. */
  get entriesPerMatch(): number | undefined {
    const [first, last] = [this.rows[0]?.id, this.rows.at(-1)?.id];
    if (first === undefined || last === undefined) return undefined;
    return Math.abs(Number(last - first)) / this.idsPerEntry / this.rows.length;
  }

  async step(entries: number): Promise<void> {
    const step = Math.floor(Math.min(entries, entriesWalkedMax - this.walked));
    await this.take({ entries: step, end: await idAfter(this.#connection, this.rest, step) });
  }

  /** Takes a step of which it is known already where it ends. */
  async take({ entries: step, end }: WalkStep): Promise<void> {
    const { low, high, descending } = this.rest;
    const piece = { low: descending ? (end ?? low) : low, high: descending ? high : (end ?? high), descending };
    this.rows.push(...(await readTable(this.#connection, this.#condition, piece, this.missing)));
    this.walked += step;
    this.reached = end;
    this.#passed += piece.high - piece.low + 1n;
    if (end !== undefined)
      this.rest = descending ? { low, high: end - 1n, descending } : { low: end + 1n, high, descending };
    this.done = this.missing === 0 || end === undefined || this.rest.low > this.rest.high;
  }
}

function walkIsCheaper(branches: number, missing: number, ahead: number): boolean {
  return ahead * cost.walked + missing * cost.walkedMatch < branches * cost.branch + missing * cost.gatheredMatch;
}

function readBranch(connection: PlacedConnection, branch: Branch, range: IdRange, want: number): Promise<EntryRow[]> {
  return connection.query<EntryRow>(
    `SELECT ${entryColumns} FROM ledger_entry ${branchTable(branch)} AND ${connection.holds}
     AND id >= ${range.low} AND id <= ${range.high} ORDER BY id ${order(range)} LIMIT ${want}`,
  );
}

function readTable(connection: PlacedConnection, condition: string, range: IdRange, want: number): Promise<EntryRow[]> {
  return connection.query<EntryRow>(
    `SELECT ${entryColumns} FROM ledger_entry FORCE INDEX (PRIMARY)
     WHERE ${connection.holds} AND id >= ${range.low} AND id <= ${range.high} AND ${condition} ORDER BY id ${order(range)} LIMIT ${want}`,
  );
}

/** The id that lies `step` entries on; undefined: the range ends before. */
async function idAfter(connection: PlacedConnection, range: IdRange, step: number): Promise<bigint | undefined> {
  const [row] = await connection.query<{ readonly id: bigint }>(
    `SELECT id FROM ledger_entry FORCE INDEX (PRIMARY) WHERE id >= ${range.low} AND id <= ${range.high}
     ORDER BY id ${order(range)} LIMIT 1 OFFSET ${step}`,
  );
  return row?.id;
}

function order(range: IdRange): "ASC" | "DESC" {
  return range.descending ? "DESC" : "ASC";
}

/** What the entries of all branches have in common, as a condition on a row. */
export function branchCondition(branches: readonly Branch[]): string {
  const whole: number[] = [];
  const sides = { from: new Map<string, BranchGroup>(), to: new Map<string, BranchGroup>() };
  for (const branch of branches) {
    if (branch.index === "class") {
      whole.push(branch.classId);
      continue;
    }
    // Branches of one class have the same accounts on the other side, so the class names the group.
    const others = branch.other === undefined ? "" : [...branch.other].join(",");
    const group = sides[branch.index].get(others) ?? { classes: new Set<number>(), accounts: new Set<number>() };
    group.classes.add(branch.classId);
    group.accounts.add(branch.accountId);
    sides[branch.index].set(others, group);
  }
  const parts = whole.length === 0 ? [] : [`class_id IN (${whole.join(",")})`];
  for (const [side, other] of [
    ["from", "to"],
    ["to", "from"],
  ] as const) {
    for (const [others, { classes, accounts }] of sides[side]) {
      const rest = others === "" ? "" : ` AND ${other}_account IN (${others})`;
      parts.push(
        `(${side}_account IN (${[...accounts].join(",")}) AND class_id IN (${[...classes].join(",")})${rest})`,
      );
    }
  }
  return `(${parts.join(" OR ")})`;
}

interface BranchGroup {
  readonly classes: Set<number>;
  readonly accounts: Set<number>;
}
