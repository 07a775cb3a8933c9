import type { BookView } from "../books/book-store.js";
import { midPrice } from "../books/quote.js";
import type { Places } from "../format/decimal.js";
import { Amount, Digits } from "./amount.js";
import { Scroll } from "./scroll.js";

/** The best prices, in large type. */
export function BestPrices({ view, places }: { readonly view: BookView; readonly places: Places }) {
  const { quote } = view;
  return (
    <Scroll label="Best prices">
      <dl class="best">
        <div>
          <dt>Best bid</dt>
          <dd class="buy" id="best-bid">
            <Amount value={quote.bid?.price} places={places.price} />
          </dd>
        </div>
        <div>
          <dt>Mid</dt>
          <dd id="best-mid">
            <Digits exact={midPrice(quote, places.price)} />
          </dd>
        </div>
        <div>
          <dt>Best ask</dt>
          <dd class="sell" id="best-ask">
            <Amount value={quote.ask?.price} places={places.price} />
          </dd>
        </div>
        <div>
          <dt>Spread</dt>
          <dd id="best-spread">
            <Amount value={quote.spread} places={places.price} />
          </dd>
        </div>
      </dl>
    </Scroll>
  );
}
