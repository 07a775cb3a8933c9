import { useEffect, useErrorBoundary, useRef, useState } from "preact/hooks";
import { thrownText } from "../src/domain/thrown-text.js";
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
  nothing: "Nothing here",
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
    case "nothing":
      return (
        <>
          <h1>{titles.nothing}</h1>
          <p class="notice">
            There is nothing at this address. Go to <a href="#/">Markets</a>.
          </p>
        </>
      );
    default:
      return <MarketsView find={shown.find} {...app} />;
  }
}

/** A view, or what it threw until another route is shown. */
function GuardedView({ shown, app }: { readonly shown: Route; readonly app: AppProps }) {
  const [thrown, forget] = useErrorBoundary();
  useEffect(forget, [shown]);
  if (thrown === undefined) return <View shown={shown} app={app} />;
  return (
    <p id="view-failed" class="notice" role="alert">
      This view cannot be shown: {thrownText(thrown)}. Choose another one.
    </p>
  );
}

/** The whole page. */
export function App(app: AppProps) {
  const shown = useObservable(route, (value) => value);
  const marketId = shown.view === "market" ? shown.marketId : "";
  const market = useObservable(app.directory.markets, (markets) => markets.get(marketId));
  const main = useRef<HTMLElement>(null);
  const place = `${shown.view} ${marketId}`;
  const firstPlace = useRef(place);
  const chain = useObservable(app.books.chain, (value) => value);
  /** The chain that was shown when the reader came to this place. */
  const [chainBefore, setChainBefore] = useState(chain);
  const title = marketId === "" ? titles[shown.view] : cut(marketName(marketId, market), nameLengthMax);

  useEffect(() => {
    document.title = `${title} · marketd`;
  }, [title]);
  useEffect(() => setChainBefore(chain), [place]);
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
        {chain !== chainBefore && (
          <p id="other-chain" class="notice" role="alert">
            The service now has the data of another chain. What this page showed of the last one is gone.
          </p>
        )}
        <GuardedView key={chain} shown={shown} app={app} />
      </main>
    </>
  );
}
