import type { MovedSums } from "../accounts/read-account.js";
import { AssetAmount } from "../components/asset-amount.js";
import { Scroll } from "../components/scroll.js";
import { grouped, missing } from "../format/decimal.js";
import { enumName } from "../format/names.js";
import { Move } from "./balance-changes.js";

const sides = [
  ["into", "In"],
  ["outOf", "Out"],
  ["between", "Between its own accounts"],
] as const;

interface MovedTableProps {
  readonly assetId: string;
  readonly sums: MovedSums;
  /** What the accounts whose balances add up hold at the end beyond what they held at the start; undefined: not known. */
  readonly gain: bigint | undefined;
}

interface RowProps {
  readonly name: string;
  readonly entries: number;
  readonly amounts: Readonly<Record<(typeof sides)[number][0], bigint>>;
  readonly assetId: string;
  readonly isTotal?: boolean;
}

function Row({ name, entries, amounts, assetId, isTotal = false }: RowProps) {
  return (
    <tr class={isTotal ? "total" : undefined}>
      <th scope="row">{name}</th>
      <td class="number" data-label="Entries">
        {grouped(String(entries))}
      </td>
      {sides.map(([side, label]) => (
        <td key={side} class="number" data-label={label}>
          <AssetAmount value={amounts[side]} assetId={assetId} hasUnit={isTotal} />
        </td>
      ))}
    </tr>
  );
}

/** What ledger entries moved of accounts of one asset, a row for each type, and what is missing. */
export function MovedTable({ assetId, sums: { types, entries, isWhole }, gain }: MovedTableProps) {
  const sum = (side: (typeof sides)[number][0] | "gain") => types.reduce((total, moved) => total + moved[side], 0n);
  const total = { into: sum("into"), outOf: sum("outOf"), between: sum("between") };
  const rest = gain === undefined ? undefined : gain - sum("gain");
  return (
    <Scroll label="Sums by transfer">
      <table id="moved" class="stack">
        <caption class="visually-hidden">What entries moved, added up by transfer</caption>
        <thead>
          <tr>
            <th scope="col">Transfer</th>
            <th scope="col" class="number">
              Entries
            </th>
            {sides.map(([side, name]) => (
              <th key={side} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {types.map((moved) => (
            <Row
              key={moved.type}
              name={enumName(moved.type, "TRANSFER_TYPE_")}
              entries={moved.entries}
              amounts={moved}
              assetId={assetId}
            />
          ))}
          <Row
            name={isWhole ? "together" : `the newest ${grouped(String(entries))} entries`}
            {...{ entries, assetId }}
            amounts={total}
            isTotal
          />
          {(!isWhole || (rest ?? 0n) !== 0n) && (
            <tr id="not-added-up">
              <th scope="row">{isWhole ? "in none of these entries" : "older entries, not added up"}</th>
              <td class="number" data-label="Entries">
                {missing}
              </td>
              <td class="number" colSpan={3}>
                <Move moved={rest} assetId={assetId} /> in less out
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </Scroll>
  );
}
