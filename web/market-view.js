import { instant, plainName, scaled, shortId } from "./decimal.js";
import { byId, element, facts } from "./element.js";

/** Levels shown on a side. */
const levelsMax = 15;

const decimals = (market) => Number(market?.decimalPlaces ?? 0);
const positionDecimals = (market) => Number(market?.positionDecimalPlaces ?? 0);

/** What a market is called, where it has a name. */
export function marketName(market) {
  const instrument = market.tradableInstrument?.instrument;
  return instrument?.code || instrument?.name || shortId(market.id);
}

export function showMarket(market) {
  const instrument = market.tradableInstrument?.instrument;
  byId("market").hidden = false;
  byId("market-title").textContent = marketName(market);
  const state = plainName(market.state, "STATE_");
  const mode = plainName(market.tradingMode, "TRADING_MODE_");
  byId("market-summary").textContent = `${instrument?.name ?? ""} · ${state} · ${mode} · ${market.id}`;
  byId("definition").textContent = JSON.stringify(market, undefined, 2);
}

function row(market, side, level, largest) {
  const price = element("td", { className: "price", title: level.price }, scaled(level.price, decimals(market)));
  const volume = element("td", { title: level.volume }, scaled(level.volume, positionDecimals(market)));
  const orders = element("td", {}, level.numberOfOrders);
  const cells = side === "buy" ? [orders, volume, price] : [price, volume, orders];
  const made = element("tr", {}, ...cells);
  const hundredths = largest === 0n ? 0 : Number((BigInt(level.volume) * 100n) / largest);
  made.style.setProperty("--share", `${hundredths}%`);
  return made;
}

/** Shows the best levels of a book; `book` undefined: none yet. */
export function showBook(market, book) {
  const [buy, sell] = [book?.buy ?? [], book?.sell ?? []];
  const shown = { buy: buy.slice(0, levelsMax), sell: sell.slice(0, levelsMax) };
  const largest = [...shown.buy, ...shown.sell].reduce((most, level) => {
    const volume = BigInt(level.volume);
    return volume > most ? volume : most;
  }, 0n);
  for (const side of ["buy", "sell"]) {
    const rows = shown[side].map((level) => row(market, side, level, largest));
    const empty = element("tr", {}, element("td", { colSpan: 3, className: "quiet" }, "no orders"));
    byId(side).tBodies[0].replaceChildren(...(rows.length > 0 ? rows : [empty]));
  }
  const [bid, offer] = [buy[0], sell[0]];
  const spread =
    bid && offer
      ? `spread ${scaled(String(BigInt(offer.price) - BigInt(bid.price)), decimals(market))}`
      : "one side only";
  const summary = [
    `${buy.length} buy and ${sell.length} sell levels`,
    buy.length + sell.length > 0 ? spread : "empty",
    `sequence number ${book?.sequenceNumber ?? "–"}`,
  ];
  byId("depth-summary").textContent = summary.join(" · ");
}

export function showTrade(market, trade) {
  byId("no-trade").hidden = trade !== undefined;
  byId("trade").replaceChildren(
    ...facts(
      trade === undefined
        ? []
        : [
            ["Price", scaled(trade.price, decimals(market))],
            ["Size", scaled(trade.size, positionDecimals(market))],
            ["Time (UTC)", instant(trade.timestamp)],
            ["Aggressor", plainName(trade.aggressor, "SIDE_")],
            ["Buyer", shortId(trade.buyer)],
            ["Seller", shortId(trade.seller)],
          ],
    ),
  );
}

export function showData(market, data) {
  byId("no-data").hidden = data !== undefined;
  const price = (text) => scaled(text, decimals(market));
  const size = (text) => scaled(text, positionDecimals(market));
  const inAuction = data !== undefined && data.auctionStart !== "0";
  byId("data").replaceChildren(
    ...facts(
      data === undefined
        ? []
        : [
            ["State", plainName(data.marketState, "STATE_")],
            ["Trading mode", plainName(data.marketTradingMode, "TRADING_MODE_")],
            ["Mark price", price(data.markPrice)],
            ["Last traded price", price(data.lastTradedPrice)],
            ["Best bid", `${size(data.bestBidVolume)} at ${price(data.bestBidPrice)}`],
            ["Best offer", `${size(data.bestOfferVolume)} at ${price(data.bestOfferPrice)}`],
            ["Open interest", size(data.openInterest)],
            ...(inAuction
              ? [
                  ["Auction", plainName(data.trigger, "AUCTION_TRIGGER_")],
                  ["Auction ends (UTC)", instant(data.auctionEnd)],
                  ["Indicative", `${size(data.indicativeVolume)} at ${price(data.indicativePrice)}`],
                ]
              : []),
            ["Supplied stake", data.suppliedStake],
            ["Target stake", data.targetStake],
            ["As of (UTC)", instant(data.timestamp)],
          ],
    ),
  );
}
