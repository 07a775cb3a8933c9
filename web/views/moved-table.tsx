import { entriesMax, type MovedSums } from "../accounts/read-account.js";
import { AssetAmount } from "../components/asset-amount.js";
import { Scroll } from "../components/scroll.js";
import { grouped } from "../format/decimal.js";
import { enumName } from "../format/names.js";

interface MovedTableProps {
  readonly assetId: string;
  readonly sums: MovedSums;
}

/** What ledger entries moved of accounts of one asset, a row for each type. */
export function MovedTable({ assetId, sums: { types, isWhole } }: MovedTableProps) {
  if (types.length === 0) return null;
  const sides = [
    ["into", "In"],
    ["outOf", "Out"],
    ["between", "Between its own accounts"],
  ] as const;
  const total = (side: (typeof sides)[number][0]) => types.reduce((sum, moved) => sum + moved[side], 0n);
  const entries = types.reduce((sum, moved) => sum + moved.entries, 0);
  return (
    <>
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
              <tr key={moved.type}>
                <th scope="row">{enumName(moved.type, "TRANSFER_TYPE_")}</th>
                <td class="number" data-label="Entries">
                  {grouped(String(moved.entries))}
                </td>
                {sides.map(([side, name]) => (
                  <td key={side} class="number" data-label={name}>
                    <AssetAmount value={moved[side]} assetId={assetId} />
                  </td>
                ))}
              </tr>
            ))}
            <tr class="total">
              <th scope="row">together</th>
              <td class="number" data-label="Entries">
                {grouped(String(entries))}
              </td>
              {sides.map(([side, name]) => (
                <td key={side} class="number" data-label={name}>
                  <AssetAmount value={total(side)} assetId={assetId} hasUnit />
                </td>
              ))}
            </tr>
          </tbody>
        </table>
      </Scroll>
      {!isWhole && <p class="quiet">The newest {grouped(String(entriesMax))} entries are added up.</p>}
    </>
  );
}
