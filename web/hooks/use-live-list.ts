import { useRef, useState } from "preact/hooks";
import { pausedText } from "../service/stream-limits.js";
import { type Polled, usePoll } from "./use-poll.js";
import { useStream } from "./use-stream.js";

/** How often a list is read again while its stream is not open. */
const pollMs = 5_000;

/** A list whose newest rows a stream brings, of messages `M`. */
interface LiveList<T, M> {
  /** Of the stream over HTTP; undefined: nothing is added to the list. */
  readonly streamUrl: string | undefined;
  /** What the list is of. Rows of another one are not shown. */
  readonly key: string;
  /** Which part of it is read. Rows of the last part are shown until those of another one are there. */
  readonly part?: string;
  /** Reads the rows, newest first. */
  readonly list: () => Promise<readonly T[]>;
  /** The rows of a message, newest first. */
  readonly rowsOf: (message: M) => readonly T[];
  /** Puts newer rows before others, without those that both have, and cuts them. */
  readonly merge: (newer: readonly T[], older: readonly T[]) => readonly T[];
}

/** Rows, newest first; undefined: not read yet. */
export interface LiveRows<T> {
  readonly rows: readonly T[] | undefined;
  readonly polled: Polled<readonly T[]>;
  /** Why the rows are not up to date: the stream is not open, or the list behind it was not read. Empty: they are. */
  readonly lost: string;
}

/**
 * A list and its stream. It is read once after each opening of the stream, so that nothing is missing in between, and
 * again and again while the stream is not open, unless because the page is hidden.
 */
export function useLiveList<T, M>({ streamUrl, key, part = "", list, rowsOf, merge }: LiveList<T, M>): LiveRows<T> {
  /** What a connection brought: `of` names the stream and the connection. */
  const [live, setLive] = useState<{ readonly of: string; readonly rows: readonly T[] }>({ of: "", rows: [] });
  const { count, lost } = useStream<M>(streamUrl, (message, connection) => {
    const [of, rows] = [`${streamUrl} ${connection}`, rowsOf(message)];
    if (rows.length > 0) setLive((last) => ({ of, rows: merge(rows, last.of === of ? last.rows : []) }));
  });
  const isLost = count === 0 || (lost !== "" && lost !== pausedText);
  const polls = streamUrl !== undefined && isLost;
  const polled = usePoll(list, polls ? pollMs : 0, `${key} ${part} ${count} ${polls}`);
  const shown = useRef<{ readonly key: string; readonly rows: readonly T[] } | undefined>(undefined);
  if (polled.value !== undefined) {
    // Rows of a lost connection are in the list that was read since, unless the service has another chain.
    const isOpen = !isLost && live.of === `${streamUrl} ${count}`;
    shown.current = { key, rows: merge(isOpen ? live.rows : [], polled.value) };
  }
  const rows = shown.current?.key === key ? shown.current.rows : undefined;
  const unread = rows !== undefined && polled.value === undefined ? (polled.error?.message ?? "") : "";
  return { rows, polled, lost: lost || unread };
}
