import { grouped, instant, plainName, shortId } from "./decimal.js";
import { byId, element } from "./element.js";
import { exportUrl, listLedgerEntries } from "./service.js";

const pageSize = 25;
/** What the service calls the owner of accounts without one. */
const networkParty = "network";

/** The ledger: all of it, or a party's, an asset's, or both. */
export class LedgerView {
  #onChange;
  #filter = { party: "", asset: "" };
  #pageInfo;
  #asked = 0;

  /** @param {(filter: {party: string, asset: string}) => void} onChange when another filter is shown */
  constructor(onChange) {
    this.#onChange = onChange;
    byId("ledger-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.show({ party: byId("party").value.trim(), asset: byId("asset").value.trim() });
    });
    const page = (id, query) => byId(id).addEventListener("click", () => this.#load(query()));
    page("newest", () => ({ "pagination.first": pageSize }));
    page("older", () => ({ "pagination.first": pageSize, "pagination.after": this.#pageInfo.endCursor }));
    page("newer", () => ({ "pagination.last": pageSize, "pagination.before": this.#pageInfo.startCursor }));
    page("oldest", () => ({ "pagination.last": pageSize }));
  }

  /** Shows the newest entries of a filter. */
  show(filter) {
    this.#filter = filter;
    byId("party").value = filter.party;
    byId("asset").value = filter.asset;
    const complete = filter.party !== "" && filter.asset !== "";
    const link = byId("csv");
    link.hidden = !complete;
    byId("csv-hint").hidden = complete;
    if (complete) link.href = exportUrl(filter.party, filter.asset).href;
    this.#onChange(filter);
    return this.#load({ "pagination.first": pageSize });
  }

  async #load(page) {
    const asked = ++this.#asked;
    const { party, asset } = this.#filter;
    const account = (name) => ({
      [`filter.${name}.partyIds`]: party,
      [`filter.${name}.assetId`]: asset,
    });
    byId("ledger-state").textContent = "loading";
    try {
      const { edges, pageInfo } = await listLedgerEntries({
        ...account("fromAccountFilter"),
        ...account("toAccountFilter"),
        ...page,
      });
      if (asked !== this.#asked) return;
      this.#pageInfo = pageInfo;
      this.#draw(edges);
    } catch (error) {
      if (asked === this.#asked) byId("ledger-state").textContent = error.message;
    }
  }

  #draw(edges) {
    byId("entries").tBodies[0].replaceChildren(...edges.map(({ node }) => this.#row(node)));
    const { hasNextPage, hasPreviousPage } = this.#pageInfo;
    byId("newest").disabled = !hasPreviousPage;
    byId("newer").disabled = !hasPreviousPage;
    byId("older").disabled = !hasNextPage;
    byId("oldest").disabled = !hasNextPage;
    byId("ledger-state").textContent = edges.length === 0 ? "no entries" : `${edges.length} entries on this page`;
  }

  #row(node) {
    const end = (side) => this.#place(node[`${side}PartyId`], node[`${side}MarketId`], node[`${side}Type`]);
    return element(
      "tr",
      {},
      element("td", {}, instant(node.timestamp)),
      element("td", {}, plainName(node.transferType, "TRANSFER_TYPE_")),
      element("td", {}, ...end("fromAccount")),
      element("td", {}, ...end("toAccount")),
      element("td", {}, this.#link(node.assetId, { asset: node.assetId })),
      element("td", { className: "number" }, grouped(node.quantity)),
    );
  }

  #place(party, market, type) {
    const owner = party === networkParty ? party : this.#link(party, { party });
    const where = market ? ` in ${shortId(market)}` : "";
    return [owner, element("span", { className: "place" }, `${plainName(type, "ACCOUNT_TYPE_")}${where}`)];
  }

  #link(id, change) {
    const title = `Show the ledger of ${id}`;
    const button = element("button", { type: "button", className: "link", title }, shortId(id));
    button.addEventListener("click", () => this.show({ ...this.#filter, ...change }));
    return button;
  }
}
