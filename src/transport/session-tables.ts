import type { Http2Session } from "node:http2";
import { types } from "node:util";

/** Streams that a session opens, at least, before its tables are replaced. */
export const streamsPerTablesMin = 16;

interface Tables {
  streams: Map<unknown, unknown>;
  pendingStreams: Set<unknown>;
}

/**
 * Replaces the two tables in which Node keeps a session's streams by equal new ones, every so often.
 *
 * V8 gives a table that has filled up a successor; the old one points to it, and goes on holding what it held. So one old
 * table that has reached the old generation keeps alive all that followed, and with each the streams of its time, long
 * gone: of ten calls at a time on a connection, ten of every sixteen become old garbage, each some kilobytes. A table made
 * anew has no predecessor (docs/performance.md, "Memory"). A Node that keeps its streams otherwise is left alone.
 */
export class SessionTables {
  readonly #tables: Tables | undefined;
  #opened = 0;

  constructor(session: Http2Session) {
    this.#tables = tablesOf(session);
  }

  /** Whether Node keeps them as this expects. */
  get found(): boolean {
    return this.#tables !== undefined;
  }

  /** The session has opened a stream. */
  streamOpened(): void {
    const tables = this.#tables;
    if (tables === undefined || ++this.#opened < streamsPerTablesMin) return;
    // A copy costs what the table holds: it may take no more than the streams since the last one paid for.
    if (this.#opened < tables.streams.size) return;
    this.#opened = 0;
    tables.streams = new Map(tables.streams);
    tables.pendingStreams = new Set(tables.pendingStreams);
  }
}

function tablesOf(session: Http2Session): Tables | undefined {
  for (const key of Object.getOwnPropertySymbols(session)) {
    const state: unknown = Reflect.get(session, key);
    if (isTables(state)) return state;
  }
  return undefined;
}

function isTables(state: unknown): state is Tables {
  if (typeof state !== "object" || state === null) return false;
  if (!("streams" in state) || !("pendingStreams" in state)) return false;
  return types.isMap(state.streams) && types.isSet(state.pendingStreams);
}
