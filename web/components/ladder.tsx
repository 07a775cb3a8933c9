import { useEffect, useRef, useState } from "preact/hooks";
import type { DepthLevel } from "../../src/domain/depth-book.js";
import type { BookView } from "../books/book-store.js";
import { midPrice } from "../books/quote.js";
import { type Places, sizeLengthMax } from "../format/decimal.js";
import { Amount, Digits } from "./amount.js";
import { Scroll } from "./scroll.js";

/** Height of a row, as the style sheet has it. */
const rowHeightPx = 23;
/** Rows of the window that the rest of the page needs above and below a ladder. */
const otherHeightPx = 440;
const levelsMin = 6;
/** Rows of a side that a browser still draws with every change. */
const levelsMax = 200;
const flashMs = 700;

/** How many levels of each side fit into the window. */
function useLevelsThatFit(): number {
  const countThatFits = () => Math.max(levelsMin, Math.floor((innerHeight - otherHeightPx) / rowHeightPx / 2));
  const [levels, setLevels] = useState(countThatFits);
  useEffect(() => {
    const resized = () => setLevels(countThatFits());
    addEventListener("resize", resized);
    return () => removeEventListener("resize", resized);
  }, []);
  return levels;
}

/** Which levels changed a moment ago. A level is another object after each change. */
class Flashes {
  #generation = -1;
  #count = 0;
  #levels = new Map<string, { readonly level: DepthLevel; readonly flashedAt: number; readonly turn: number }>();

  /** Notes what is shown now: up to `count` levels of each side. */
  note({ generation, buy, sell }: BookView, count: number): void {
    const now = performance.now();
    const isSame = generation === this.#generation && count === this.#count;
    // Twice as many as are shown, so that those that move into sight don't count as changed.
    const levels = [...buy.slice(0, 2 * count), ...sell.slice(0, 2 * count)];
    const next = new Map<string, { level: DepthLevel; flashedAt: number; turn: number }>();
    for (const level of levels) {
      const last = this.#levels.get(level.price);
      const changed = isSame && last?.level !== level;
      const flashedAt = changed ? now : (last?.flashedAt ?? 0);
      next.set(level.price, { level, flashedAt, turn: (last?.turn ?? 0) + (changed ? 1 : 0) });
    }
    this.#generation = generation;
    this.#count = count;
    this.#levels = next;
  }

  /** One of two equal animations, in turn, so that each change starts one; undefined: not now. */
  of({ price }: DepthLevel): "a" | "b" | undefined {
    const noted = this.#levels.get(price);
    if (noted === undefined || performance.now() - noted.flashedAt > flashMs) return undefined;
    return noted.turn % 2 === 0 ? "a" : "b";
  }
}

interface Row {
  readonly level: DepthLevel;
  /** Volume up to here, from the best level on. */
  readonly sum: bigint;
}

function rowsOf(levels: readonly DepthLevel[]): Row[] {
  let sum = 0n;
  return levels.map((level) => {
    sum += level.volume;
    return { level, sum };
  });
}

interface LadderProps {
  readonly view: BookView;
  readonly places: Places;
}

/** The order book by price: asks above, bids below, the mid price between them. */
export function Ladder({ view, places }: LadderProps) {
  const fitting = useLevelsThatFit();
  const [isLong, setLong] = useState(false);
  const count = isLong ? levelsMax : fitting;
  const isCut = Math.max(view.buy.length, view.sell.length) > fitting;
  const flashes = useRef(new Flashes()).current;
  const hasOrders = useRef(false);
  const [buy, sell] = [view.buy.slice(0, count), view.sell.slice(0, count)];
  flashes.note(view, count);
  // A venue that publishes no numbers of orders has none at all.
  hasOrders.current ||= [...buy, ...sell].some(({ numberOfOrders }) => numberOfOrders > 0n);
  const columns = hasOrders.current ? 4 : 3;
  const [bids, asks] = [rowsOf(buy), rowsOf(sell)];
  const largest = [bids.at(-1)?.sum ?? 0n, asks.at(-1)?.sum ?? 0n].reduce((a, b) => (a > b ? a : b));

  const row = (side: "buy" | "sell", { level, sum }: Row) => {
    const share = largest === 0n ? 0 : Number((sum * 1_000n) / largest) / 10;
    return (
      <tr
        key={`${side} ${level.price}`}
        class={side}
        data-flash={flashes.of(level)}
        data-price={level.price}
        data-volume={String(level.volume)}
        style={{ "--share": `${share}%` }}
      >
        <th scope="row" class="price">
          <Amount value={level.price} places={places.price} />
        </th>
        <td>
          <Amount value={level.volume} places={places.size} lengthMax={sizeLengthMax} />
        </td>
        <td>
          <Amount value={sum} places={places.size} lengthMax={sizeLengthMax} />
        </td>
        {hasOrders.current && <td class="orders">{String(level.numberOfOrders)}</td>}
      </tr>
    );
  };
  return (
    <>
      <Scroll label="Price levels">
        <table id="ladder" class="ladder">
          <caption class="visually-hidden">
            Order book: asks from the highest price down to the best, the mid price, then bids from the best down.
          </caption>
          <thead>
            <tr>
              <th scope="col">Price</th>
              <th scope="col">Volume</th>
              <th scope="col">Cumulative</th>
              {hasOrders.current && (
                <th scope="col" class="orders">
                  Orders
                </th>
              )}
            </tr>
          </thead>
          <tbody id="asks">
            {asks.length === 0 ? (
              <EmptySide side="asks" columns={columns} />
            ) : (
              asks.toReversed().map((each) => row("sell", each))
            )}
          </tbody>
          <tbody>
            <MidRow view={view} places={places} columns={columns} />
          </tbody>
          <tbody id="bids">
            {bids.length === 0 ? <EmptySide side="bids" columns={columns} /> : bids.map((each) => row("buy", each))}
          </tbody>
        </table>
      </Scroll>
      {isCut && (
        <button type="button" id="more-levels" aria-pressed={isLong} onClick={() => setLong(!isLong)}>
          {`Up to ${levelsMax} levels`}
        </button>
      )}
    </>
  );
}

function EmptySide({ side, columns }: { readonly side: string; readonly columns: number }) {
  return (
    <tr>
      <td colSpan={columns} class="quiet">
        no {side}
      </td>
    </tr>
  );
}

function MidRow({ view: { quote }, places, columns }: LadderProps & { readonly columns: number }) {
  return (
    <tr class="mid">
      <th scope="row" colSpan={columns}>
        <div class="mid-line">
          <span class="mid-price" id="ladder-mid">
            <Digits exact={midPrice(quote, places.price)} />
          </span>
          <span class="mid-spread">
            mid · spread{" "}
            <span id="ladder-spread">
              <Amount value={quote.spread} places={places.price} />
            </span>
          </span>
        </div>
      </th>
    </tr>
  );
}
