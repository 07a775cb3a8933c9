import { groupBy } from "../domain/group-by.js";
import type { Branch } from "./selection.js";

/** `FORCE INDEX … WHERE …` of a branch, without its range of ids. */
export function branchSql(branch: Branch): string {
  const account = branch.index === "class" ? "" : `${branch.index}_account = ${branch.accountId} AND `;
  return `FORCE INDEX (ledger_entry_${branch.index}) WHERE ${account}class_id = ${branch.classId}`;
}

/**
 * For each index that the branches use, `FORCE INDEX … WHERE …` of all of them. Classes are listed per account, because
 * the server plans a range for each pair, at about 10 µs.
 */
export function unionSql(branches: readonly Branch[]): string[] {
  return (["class", "from", "to"] as const).flatMap((index) => {
    const ofAccounts = groupBy(
      branches.filter((branch) => branch.index === index),
      ({ accountId }) => accountId,
    );
    if (ofAccounts.size === 0) return [];
    const parts = [...ofAccounts].map(([account, group]) => {
      const side = index === "class" ? "" : `${index}_account = ${account} AND `;
      return `(${side}class_id IN (${group.map(({ classId }) => classId).join(",")}))`;
    });
    return [`FORCE INDEX (ledger_entry_${index}) WHERE (${parts.join(" OR ")})`];
  });
}

/** What the entries of all branches have in common, as a condition on a row. */
export function rowCondition(branches: readonly Branch[]): string {
  const whole: number[] = [];
  const sides = { from: new Map<number | undefined, BranchGroup>(), to: new Map<number | undefined, BranchGroup>() };
  for (const branch of branches) {
    if (branch.index === "class") {
      whole.push(branch.classId);
      continue;
    }
    const group = sides[branch.index].get(branch.other) ?? { classes: new Set<number>(), accounts: new Set<number>() };
    group.classes.add(branch.classId);
    group.accounts.add(branch.accountId);
    sides[branch.index].set(branch.other, group);
  }
  const parts = whole.length === 0 ? [] : [`class_id IN (${whole.join(",")})`];
  for (const [side, other] of [
    ["from", "to"],
    ["to", "from"],
  ] as const) {
    for (const [account, { classes, accounts }] of sides[side]) {
      const rest = account === undefined ? "" : ` AND ${other}_account = ${account}`;
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
