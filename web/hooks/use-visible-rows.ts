import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

/** Rows are rendered in groups of this many, and a group more on each side, so that focus can move to the next row. */
const groupRows = 4;
/** Until rows were measured. */
const usualRowHeightPx = 50;

/** Which rows of a table are rendered. */
interface RenderedRows {
  /** Index of the first. */
  readonly start: number;
  /** Index after the last. */
  readonly end: number;
  readonly rowHeightPx: number;
}

/** The rows on the screen, in whole groups. */
function rowsOnScreen(scrolledPx: number, rowHeightPx: number, count: number): RenderedRows {
  const groups = Math.floor(scrolledPx / rowHeightPx / groupRows);
  const shown = Math.ceil(innerHeight / rowHeightPx);
  const end = Math.min(count, groups * groupRows + shown + 2 * groupRows);
  return { start: Math.max(0, Math.min((groups - 1) * groupRows, end - shown)), end, rowHeightPx };
}

function isSame(a: RenderedRows, b: RenderedRows): boolean {
  return a.start === b.start && a.end === b.end && a.rowHeightPx === b.rowHeightPx;
}

/** The average height of the rows that are rendered now. */
function averageRowHeightPx(table: HTMLTableElement | null): number {
  const body = table?.querySelector<HTMLTableSectionElement>("tbody:not([aria-hidden])");
  return body && body.rows.length > 0 ? body.offsetHeight / body.rows.length : usualRowHeightPx;
}

/**
 * The rows of a long table that are worth rendering, one for each of `items`: those on the screen and some around them.
 * Space of `rowHeightPx` stands for each of the others, in a `tbody` with `aria-hidden`. Rows have to be about equally
 * high. They are measured when the list or the window changes, and not while a reader scrolls.
 */
export function useVisibleRows(table: RefObject<HTMLTableElement | null>, items: readonly unknown[]): RenderedRows {
  const [rows, setRows] = useState(() => rowsOnScreen(0, usualRowHeightPx, items.length));
  useLayoutEffect(() => {
    let rowHeightPx = usualRowHeightPx;
    const scrolled = () => {
      const scrolledPx = Math.max(0, -(table.current?.getBoundingClientRect().top ?? 0));
      const next = rowsOnScreen(scrolledPx, rowHeightPx, items.length);
      setRows((last) => (isSame(last, next) ? last : next));
    };
    const resized = () => {
      rowHeightPx = averageRowHeightPx(table.current);
      scrolled();
    };
    resized();
    addEventListener("scroll", scrolled, { passive: true });
    addEventListener("resize", resized);
    return () => {
      removeEventListener("scroll", scrolled);
      removeEventListener("resize", resized);
    };
  }, [table, items]);
  return rows;
}
