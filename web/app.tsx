import { useEffect, useRef } from "preact/hooks";
import type { BookStore } from "./books/book-store.js";
import { ExactSwitch } from "./components/amount.js";
import { StatusStrip } from "./components/status-strip.js";
import { cut, nameLengthMax } from "./format/names.js";
import { useObservable } from "./hooks/observable.js";
import { type Route, route } from "./route.js";
import { type MarketDirectory, marketName } from "./service/market-directory.js";
import type { ServiceStatus } from "./service/service-status.js";
import { AccountView } from "./views/account-view.js";
import { LedgerView } from "./views/ledger-view.js";
import { MarketView } from "./views/market-view.js";
import { MarketsView } from "./views/markets-view.js";
import { SignersView } from "./views/signers-view.js";

/** What the views share. */
export interface AppProps {
  readonly books: BookStore;
  readonly directory: MarketDirectory;
  readonly status: ServiceStatus;
}

const links = [
  { href: "#/", text: "Markets", views: ["markets", "market"] },
  { href: "#/ledger", text: "Ledger", views: ["ledger"] },
  { href: "#/account", text: "Accounts", views: ["account"] },
  { href: "#/signers", text: "Signer bundles", views: ["signers"] },
] as const satisfies readonly { href: string; text: string; views: readonly Route["view"][] }[];

const titles = {
  markets: "Markets",
  market: "Market",
  account: "Account",
  ledger: "Ledger",
  signers: "Signer bundles",
} as const satisfies Record<Route["view"], string>;

function View({ shown, app }: { readonly shown: Route; readonly app: AppProps }) {
  switch (shown.view) {
    case "market":
      return <MarketView key={shown.marketId} shown={shown} {...app} />;
    case "account":
      return <AccountView query={shown.query} {...app} />;
    case "ledger":
      return <LedgerView query={shown.query} {...app} />;
    case "signers":
      return <SignersView query={shown.query} />;
    default:
      return <MarketsView find={shown.find} {...app} />;
  }
}

/** The whole page. */
export function App(app: AppProps) {
  const shown = useObservable(route, (value) => value);
  const marketId = shown.view === "market" ? shown.marketId : "";
  const market = useObservable(app.directory.markets, (markets) => markets.get(marketId));
  const main = useRef<HTMLElement>(null);
  const place = `${shown.view} ${marketId}`;
  const firstPlace = useRef(place);
  const title = marketId === "" ? titles[shown.view] : cut(marketName(marketId, market), nameLengthMax);

  useEffect(() => {
    document.title = `${title} · marketd`;
  }, [title]);
  useEffect(() => {
    // Readers of the screen hear of another view, but not of the first.
    if (place !== firstPlace.current) {
      firstPlace.current = "";
      main.current?.focus();
      scrollTo(0, 0);
    }
  }, [place]);

  return (
    <>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to content
      </button>
      <header class="top">
        <a class="brand" href="#/">
          marketd
        </a>
        <nav aria-label="Views">
          {links.map(({ href, text, views }) => (
            <a
              key={href}
              class="view-link"
              href={href}
              aria-current={(views as readonly string[]).includes(shown.view) ? "page" : undefined}
            >
              {text}
            </a>
          ))}
          <a class="view-link" href="docs">
            API
          </a>
        </nav>
        <ExactSwitch />
        <StatusStrip books={app.books} status={app.status} />
      </header>
      <main id="content" ref={main} tabIndex={-1} aria-label={title}>
        <View shown={shown} app={app} />
      </main>
    </>
  );
}
