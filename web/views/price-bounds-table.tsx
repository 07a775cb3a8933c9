import { duration } from "../../src/domain/instant.js";
import { Amount } from "../components/amount.js";
import { Scroll } from "../components/scroll.js";
import type { PriceBounds } from "../service/messages.js";

/** Prices beyond which an auction begins. */
export function PriceBoundsTable({
  bounds,
  places,
}: {
  readonly bounds: readonly PriceBounds[];
  readonly places: number;
}) {
  return (
    <Scroll label="Bounds">
      <table id="price-bounds" class="plain">
        <thead>
          <tr>
            <th scope="col">Horizon</th>
            <th scope="col">From</th>
            <th scope="col">To</th>
            <th scope="col">Reference</th>
          </tr>
        </thead>
        <tbody>
          {bounds.map(({ trigger, minValidPrice, maxValidPrice, referencePrice }) => (
            <tr key={trigger?.horizon}>
              <th scope="row">{trigger === undefined ? "" : duration(Number(trigger.horizon))}</th>
              <td>
                <Amount value={minValidPrice} places={places} />
              </td>
              <td>
                <Amount value={maxValidPrice} places={places} />
              </td>
              <td>
                <Amount value={referencePrice} places={places} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
