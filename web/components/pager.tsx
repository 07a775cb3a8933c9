import { type QueryView, queryHref } from "../route.js";
import type { PageInfo } from "../service/messages.js";

interface PagerProps {
  readonly view: QueryView;
  /** The parameters of the page that is shown; `pagination.*` among them. */
  readonly query: URLSearchParams;
  readonly pageInfo: PageInfo;
  readonly rows: number;
}

export const pageSize = 25;

const pageNames = ["first", "after", "last", "before"].map((name) => `pagination.${name}`);

/** The same list at another page: with other `pagination.*` parameters. */
export function withPage(query: URLSearchParams, page: Readonly<Record<string, string>>): URLSearchParams {
  const kept = [...query].filter(([name]) => !pageNames.includes(name));
  return new URLSearchParams([...kept, ...Object.entries(page).map(([name, value]) => [`pagination.${name}`, value])]);
}

/** Links to the other pages of a list; those that lead nowhere are text. */
export function Pager({ view, query, pageInfo, rows }: PagerProps) {
  const { hasNextPage, hasPreviousPage, startCursor, endCursor } = pageInfo;
  const size = String(pageSize);
  const pages = [
    { name: "First", there: hasPreviousPage, page: {} },
    { name: "Previous", there: hasPreviousPage, page: { last: size, before: startCursor } },
    { name: "Next", there: hasNextPage, page: { first: size, after: endCursor } },
    { name: "Last", there: hasNextPage, page: { last: size } },
  ];
  return (
    <nav class="pager" aria-label="Pages">
      {pages.map(({ name, there, page }) =>
        there ? (
          <a key={name} class="button" href={queryHref(view, withPage(query, page))}>
            {name}
          </a>
        ) : (
          <span key={name} class="button disabled">
            {name}
          </span>
        ),
      )}
      <output>{rows === 0 ? "No entries" : `${rows} on this page`}</output>
    </nav>
  );
}
