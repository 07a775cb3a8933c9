import { byId, element } from "./element.js";
import { apiUrl, exportUrl } from "./service.js";

const service = "datanode.api.v2.TradingDataService";

/** For a shell, between single quotes. */
function quoted(text) {
  return `'${String(text).replaceAll("'", String.raw`'\''`)}'`;
}

function grpcurl(method, request) {
  const plain = location.protocol === "https:" ? "" : "-plaintext ";
  const port = location.port || (location.protocol === "https:" ? "443" : "80");
  return `grpcurl ${plain}-d ${quoted(JSON.stringify(request))} ${location.hostname}:${port} ${service}/${method}`;
}

/** The calls behind what the page shows now. */
function calls({ marketId, party, asset }) {
  const id = encodeURIComponent(marketId);
  const stream = apiUrl("api/v2/stream/markets/depth/updates", { marketIds: marketId });
  const socket = new URL(stream);
  socket.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const history = apiUrl("api/v2/ledgerentry/history", {
    "filter.fromAccountFilter.partyIds": party,
    "filter.fromAccountFilter.assetId": asset,
    "filter.toAccountFilter.partyIds": party,
    "filter.toAccountFilter.assetId": asset,
    "pagination.first": 10,
  });
  const ofMarket = [
    ["The market", `curl ${quoted(apiUrl(`api/v2/market/${id}`))}`],
    ["Its order book", `curl ${quoted(apiUrl(`api/v2/market/depth/${id}/latest`, { maxDepth: 10 }))}`],
    ["Its market data", `curl ${quoted(apiUrl(`api/v2/market/data/${id}/latest`))}`],
    ["Its order book, live, a JSON object per line", `curl -N ${quoted(stream)}`],
    ["The same over a WebSocket", `websocat ${quoted(socket)}`],
    ["The same over gRPC", grpcurl("ObserveMarketsDepthUpdates", { marketIds: [marketId] })],
  ];
  return [
    ["The data of all markets", `curl ${quoted(apiUrl("markets/data"))}`],
    ...(marketId === "" ? [] : ofMarket),
    ["The ledger", `curl ${quoted(history)}`],
    ...(party === "" || asset === "" ? [] : [["All of it as CSV", `curl -OJ ${quoted(exportUrl(party, asset))}`]]),
    [
      "What there is over gRPC",
      grpcurl("", {})
        .replace(/-d '.*?' /, "")
        .replace(`${service}/`, `describe ${service}`),
    ],
  ];
}

async function copy(button, text, block) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(block);
    button.textContent = "Selected";
  }
  setTimeout(() => {
    button.textContent = "Copy";
  }, 1_500);
}

/** Shows the calls. @param {{marketId: string, party: string, asset: string}} what empty texts: none */
export function showCalls(what) {
  const shown = calls(what).map(([title, command]) => {
    const block = element("pre", { tabIndex: 0 }, command);
    const button = element("button", { type: "button", ariaLabel: `Copy: ${title}` }, "Copy");
    button.addEventListener("click", () => copy(button, command, block));
    return element("div", { className: "call" }, element("header", {}, element("p", {}, title), button), block);
  });
  byId("calls").replaceChildren(...shown);
}
