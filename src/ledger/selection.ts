import type { Account, AccountDirectory, AccountKind, EntryClass } from "./account-directory.js";

/** The accounts on one side of an entry. An empty list or undefined does not restrict. */
export interface AccountSide {
  readonly partyId: string | undefined;
  readonly assetId: string | undefined;
  readonly marketIds: readonly string[];
  readonly types: readonly number[];
}

/**
 * Which entries are wanted. A side without a restriction is undefined, not an empty object:
 *
 * | from | to | closed | account condition |
 * | --- | --- | --- | --- |
 * | – | – | any | true |
 * | given | – | any | from matches |
 * | – | given | any | to matches |
 * | given | given | false | from matches or to matches |
 * | given | given | true | from matches and to matches |
 *
 * The transfer types restrict the outcome in every case.
 */
export interface LedgerFilter {
  readonly from: AccountSide | undefined;
  readonly to: AccountSide | undefined;
  readonly closed: boolean;
  readonly transferTypes: readonly number[];
}

/** A range of one index in which every entry, or every one with the account `other`, is selected, ordered by id. */
export interface Branch {
  readonly index: "class" | "from" | "to";
  readonly classId: number;
  /** The account, for `from` and `to`. */
  readonly accountId: number;
  /** The account on the other side; undefined: any. */
  readonly other: number | undefined;
}

/** What a filter selects: everything, or a union of branches. An entry may be in a `from` and a `to` branch. */
export type LedgerSelection =
  | { readonly kind: "all" }
  | { readonly kind: "branches"; readonly branches: readonly Branch[] };

/** The selected accounts of one kind: a party has one at most. */
type Chosen = "all" | "none" | number;

/** What tells whether a side selects an account, in the same time however long its lists are; undefined selects all. */
export function accountSelector(side: AccountSide | undefined): (account: Account) => boolean {
  if (side === undefined) return () => true;
  const selectsKind = kindSelector(side);
  return ({ partyId, kind }) => (side.partyId ?? partyId) === partyId && selectsKind(kind);
}

function kindSelector(side: AccountSide): (kind: AccountKind) => boolean {
  const [marketIds, types] = [new Set(side.marketIds), new Set(side.types)];
  return ({ assetId, marketId, type }) =>
    (side.assetId ?? assetId) === assetId &&
    (marketIds.size === 0 || marketIds.has(marketId)) &&
    (types.size === 0 || types.has(type));
}

/** Converts a filter to exact ranges of the indexes. */
export function selectEntries(directory: AccountDirectory, filter: LedgerFilter): LedgerSelection {
  const types = filter.transferTypes.length === 0 ? undefined : new Set(filter.transferTypes);
  const from = filter.from && new SideChoice(directory, filter.from);
  const to = filter.to && new SideChoice(directory, filter.to);
  if (from === undefined && to === undefined && types === undefined) return { kind: "all" };
  const branches: Branch[] = [];
  let whole = 0;
  for (const entryClass of directory.classes) {
    if (types !== undefined && !types.has(entryClass.transferType)) continue;
    const added = classBranches(entryClass, from, to, filter.closed);
    if (added.length === 1 && added[0]?.index === "class") whole++;
    branches.push(...added);
  }
  // All classes are selected: the table itself is the index.
  if (whole === directory.classes.length) return { kind: "all" };
  return { kind: "branches", branches };
}

function classBranches(
  entryClass: EntryClass,
  from: SideChoice | undefined,
  to: SideChoice | undefined,
  closed: boolean,
): Branch[] {
  const fromChosen = from === undefined ? undefined : from.of(entryClass.from);
  const toChosen = to === undefined ? undefined : to.of(entryClass.to);
  const { id } = entryClass;
  if (fromChosen !== undefined && toChosen !== undefined) {
    return closed ? bothBranches(id, fromChosen, toChosen) : eitherBranches(id, fromChosen, toChosen);
  }
  if (fromChosen !== undefined) return sideBranches("from", id, fromChosen);
  if (toChosen !== undefined) return sideBranches("to", id, toChosen);
  return [wholeClass(id)];
}

function wholeClass(classId: number): Branch {
  return { index: "class", classId, accountId: 0, other: undefined };
}

function sideBranches(
  index: "from" | "to",
  classId: number,
  chosen: Chosen,
  other: number | undefined = undefined,
): Branch[] {
  if (chosen === "all") return [wholeClass(classId)];
  return chosen === "none" ? [] : [{ index, classId, accountId: chosen, other }];
}

function eitherBranches(classId: number, from: Chosen, to: Chosen): Branch[] {
  if (from === "all" || to === "all") return [wholeClass(classId)];
  return [...sideBranches("from", classId, from), ...sideBranches("to", classId, to)];
}

function bothBranches(classId: number, from: Chosen, to: Chosen): Branch[] {
  if (from === "none" || to === "none") return [];
  if (from === "all") return sideBranches("to", classId, to);
  return sideBranches("from", classId, from, to === "all" ? undefined : to);
}

/** The accounts of each kind that one side selects. */
class SideChoice {
  readonly #selectsKind: (kind: AccountKind) => boolean;
  readonly #ofParty: ReadonlyMap<AccountKind, number> | undefined;

  constructor(directory: AccountDirectory, side: AccountSide) {
    this.#selectsKind = kindSelector(side);
    const accounts = side.partyId === undefined ? undefined : directory.accountsOf(side.partyId);
    this.#ofParty = accounts && new Map(accounts.map(({ kind, id }) => [kind, id]));
  }

  of(kind: AccountKind): Chosen {
    if (!this.#selectsKind(kind)) return "none";
    if (this.#ofParty === undefined) return "all";
    // A later account of this kind is not in the request's view, which ends at its newest block.
    return kind.accounts === 1 && this.#ofParty.has(kind) ? "all" : (this.#ofParty.get(kind) ?? "none");
  }
}
