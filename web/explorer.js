import { showCalls } from "./calls-view.js";
import { age, plainName, shortId } from "./decimal.js";
import { DepthStream } from "./depth-stream.js";
import { byId, element } from "./element.js";
import { LedgerView } from "./ledger-view.js";
import { marketName, showBook, showData, showMarket, showTrade } from "./market-view.js";
import { getDepth, getMarket, getMarketData, listMarketsData, ServiceError, stalenessSeconds } from "./service.js";

const pollMs = 2_000;
/** Markets are asked for their names up to this many; the others are listed by identifier. */
const namesMax = 100;
const marketsPollMs = 15_000;
/** Data older than this is called old. */
const stalenessMaxSeconds = 15;

const shown = { marketId: "", party: "", asset: "" };
/** What belongs to the market that is shown. */
let market;
let stream;
let drawing = false;
let newestBook;
const names = new Map();

function setState(id, state, text) {
  const target = byId(id);
  target.dataset.state = state;
  if (target.textContent !== text) target.textContent = text;
}

function setProblem(text) {
  byId("problem").hidden = text === undefined;
  byId("problem").textContent = text ?? "";
}

/** The page's address says what is shown, so that it can be shared and reloaded. */
function remember() {
  const parts = Object.entries({ market: shown.marketId, party: shown.party, asset: shown.asset });
  const hash = new URLSearchParams(parts.filter(([, value]) => value !== ""));
  history.replaceState(undefined, "", `#${hash}`);
  showCalls(shown);
}

/** At most one drawing per frame, of the newest book. */
function drawBook(book) {
  newestBook = book;
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    if (market !== undefined) showBook(market, newestBook);
  });
}

async function refreshMarket() {
  const id = shown.marketId;
  const [data, depth] = await Promise.allSettled([getMarketData(id), getDepth(id, 1)]);
  if (id !== shown.marketId || market === undefined) return;
  if (depth.status === "fulfilled") {
    showTrade(market, depth.value.lastTrade);
    setProblem();
  } else {
    setProblem(depth.reason.message);
  }
  if (data.status === "fulfilled") showData(market, data.value);
  else if (data.reason.reason === "NO_MARKET_DATA_YET") showData(market, undefined);
  showAge();
}

function showAge() {
  if (stalenessSeconds === undefined) return setState("data-age", "idle", "");
  const old = stalenessSeconds > stalenessMaxSeconds;
  return setState("data-age", old ? "waiting" : "live", `newest data ${age(stalenessSeconds)} old`);
}

async function openMarket(id) {
  stream?.close();
  stream = undefined;
  market = undefined;
  newestBook = undefined;
  shown.marketId = id;
  remember();
  try {
    const found = await getMarket(id);
    if (id !== shown.marketId) return;
    market = found;
  } catch (error) {
    if (id !== shown.marketId) return;
    byId("market").hidden = true;
    setState("stream-state", "idle", "no stream");
    setProblem(error.message);
    // Unknown stays unknown; whatever else went wrong may pass.
    if (!(error instanceof ServiceError) || error.status !== 404) setTimeout(() => retry(id), pollMs);
    return;
  }
  setProblem();
  showMarket(market);
  showBook(market, undefined);
  if ([...byId("market-choice").options].some((option) => option.value === id)) byId("market-choice").value = id;
  stream = new DepthStream(id, drawBook, (state, text) => setState("stream-state", state, text));
  await refreshMarket();
}

function retry(id) {
  if (id === shown.marketId && market === undefined) openMarket(id);
}

function label(data) {
  return names.get(data.market) ?? shortId(data.market);
}

function option(data) {
  const state = plainName(data.marketTradingMode, "TRADING_MODE_");
  return element("option", { value: data.market }, `${label(data)} · ${state}`);
}

/** Whether a market is worth to be shown first. */
function isLively(data) {
  return data.marketTradingMode === "TRADING_MODE_CONTINUOUS" && data.bestBidVolume !== "0";
}

async function nameMarkets(list) {
  const unnamed = list.slice(0, namesMax).filter((data) => !names.has(data.market));
  for (const { market: id } of unnamed) {
    try {
      names.set(id, marketName(await getMarket(id)));
    } catch {
      return;
    }
  }
}

/** @returns {Promise<number>} when to do it again, in milliseconds */
async function refreshMarkets() {
  try {
    const list = await listMarketsData();
    await nameMarkets(list);
    list.sort((one, other) => label(one).localeCompare(label(other)));
    const choice = byId("market-choice");
    const options = list.map(option);
    // An open list stays open while nothing changes.
    const isSame = (made, index) =>
      choice.options[index]?.value === made.value && choice.options[index].text === made.text;
    if (options.length !== choice.options.length || !options.every(isSame)) choice.replaceChildren(...options);
    if (list.some((data) => data.market === shown.marketId)) choice.value = shown.marketId;
    byId("no-markets").hidden = list.length > 0;
    const first = list.find(isLively) ?? list[0];
    if (shown.marketId === "" && first !== undefined) await openMarket(first.market);
    if (shown.marketId === "") setProblem();
    return list.length > 0 ? marketsPollMs : pollMs;
  } catch (error) {
    setProblem(error.message);
    return pollMs;
  }
}

/** Does something again and again, never twice at once, and not while nobody looks. The task says when. */
function repeat(task, delayMs) {
  setTimeout(async () => {
    repeat(task, document.hidden ? pollMs : await task());
  }, delayMs);
}

function listen() {
  // Areas that scroll can be scrolled by keyboard.
  for (const id of ["pages", "definition"]) byId(id).tabIndex = 0;
  byId("market-choice").addEventListener("change", (event) => openMarket(event.target.value));
  byId("market-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const id = byId("market-id").value.trim() || byId("market-choice").value;
    if (id !== "") openMarket(id);
  });
  addEventListener("pagehide", () => stream?.close());
  addEventListener("pageshow", (event) => {
    if (event.persisted && shown.marketId !== "") openMarket(shown.marketId);
  });
}

function start() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const ledger = new LedgerView((filter) => {
    Object.assign(shown, filter);
    remember();
  });
  listen();
  const marketId = asked.get("market") ?? "";
  if (marketId !== "") openMarket(marketId);
  ledger.show({ party: asked.get("party") ?? "", asset: asked.get("asset") ?? "" });
  repeat(refreshMarkets, 0);
  repeat(async () => {
    if (market !== undefined) await refreshMarket();
    return pollMs;
  }, pollMs);
}

start();
