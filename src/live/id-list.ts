import { hash } from "node:crypto";
import type { DescMessage } from "@bufbuild/protobuf";
import { type Cursors, type IdListName, idCursors } from "../domain/cursor.js";
import type { EncodedResponse } from "../domain/encoded-response.js";
import { type PageRequest, pageInfo } from "../domain/page.js";
import { encodeBinary } from "../encoding/binary-encoder.js";
import { encodeJson } from "../encoding/json-encoder.js";
import { Segment, SegmentResponse } from "./segment-response.js";

/** A message in memory that lists contain, by its id. */
export interface Listed {
  readonly id: string;
  /** Stream sequence number of the block that last changed it. */
  readonly changedSequence: bigint;
  readonly segment: Segment;
}

/** The messages of a list: the response has one field, the connection; that has edges and a `page_info`. */
export interface IdListSchemas<S extends DescMessage> {
  /** The name of the list in cursors, and of the connection in JSON. */
  readonly name: IdListName;
  readonly response: S;
  readonly connection: DescMessage;
  readonly edge: DescMessage;
}

/** Keeps some responses by their keys; when there are too many, it begins anew. */
export class ResponseCache<S extends DescMessage> {
  readonly #responses = new Map<string, EncodedResponse<S>>();

  constructor(private readonly responsesMax: number) {}

  get(key: string, make: () => EncodedResponse<S>): EncodedResponse<S> {
    const known = this.#responses.get(key);
    if (known !== undefined) return known;
    const response = make();
    if (this.#responses.size >= this.responsesMax) this.#responses.clear();
    this.#responses.set(key, response);
    return response;
  }

  clear(): void {
    this.#responses.clear();
  }
}

/** What names a selection, or a store, in the versions of responses. */
export function versionOf(key: string): string {
  return hash("sha256", key, "base64url").slice(0, 10);
}

/** Pages of what a process has in memory, in the order of ids; {@link PageRequest.newestFirst} reverses it. */
export class IdList<S extends DescMessage> {
  readonly #schemas: IdListSchemas<S>;
  readonly #cursors: Cursors<string>;
  readonly #pages: ResponseCache<S>;
  readonly #chainVersion: string;
  #changedSequence = 0n;

  constructor(schemas: IdListSchemas<S>, chainVersion: string, responsesMax: number) {
    this.#schemas = schemas;
    this.#cursors = idCursors(schemas.name);
    this.#chainVersion = chainVersion;
    this.#pages = new ResponseCache(responsesMax);
  }

  /** Something of the list has changed. */
  changed(changedSequence: bigint): void {
    if (changedSequence > this.#changedSequence) this.#changedSequence = changedSequence;
    this.#pages.clear();
  }

  /** A page of the selection that `key` names, which is in the order of ids. It has a version. */
  page(key: string, request: PageRequest<string>, selection: () => readonly Listed[]): EncodedResponse<S> {
    const { newestFirst, size, backwards, cursor = null } = request;
    const whole = JSON.stringify([key, newestFirst, size, backwards, cursor]);
    return this.#pages.get(whole, () => {
      const version = `${this.#chainVersion}-${this.#changedSequence}-${versionOf(whole)}`;
      return this.#make(selection(), request, version);
    });
  }

  #make(listed: readonly Listed[], request: PageRequest<string>, version: string): EncodedResponse<S> {
    const { name, response, connection } = this.#schemas;
    const { backwards, cursor, newestFirst, size } = request;
    const ordered = newestFirst ? listed.toReversed() : listed;
    const { before, after } = placesAt(ordered, cursor, newestFirst);
    const from = backwards ? Math.max(0, before - size) : after;
    const to = backwards ? before : Math.min(ordered.length, after + size);
    const rows = ordered.slice(from, to);
    const edges = rows.map((one) => this.#edge(one));
    const [first, last] = [rows[0], rows.at(-1)].map((row) => row && this.#cursors.encode(row.id));
    const page = { hasPrevious: from > 0, hasNext: to < ordered.length };
    const rest = { pageInfo: pageInfo(page, request, { first, last }) };
    const close = `],${encodeJson(connection, rest).replace('{"edges":[],', "")}`;
    const envelope = { schema: connection, open: '{"edges":[', close, rest: encodeBinary(connection, rest) };
    const inner = new SegmentResponse(envelope, edges);
    return new SegmentResponse({ schema: response, open: `{"${name}":`, close: "}" }, [Segment.from(inner)], version);
  }

  #edge({ id, segment }: Listed): Segment {
    const { edge } = this.#schemas;
    const cursor = this.#cursors.encode(id);
    const envelope = {
      schema: edge,
      open: '{"node":',
      close: `,"cursor":"${cursor}"}`,
      rest: encodeBinary(edge, { cursor }),
    };
    return Segment.from(new SegmentResponse(envelope, [segment]));
  }
}

/** Where the part of a list before a cursor ends, and where that behind it begins. Without a cursor both are all of it. */
function placesAt(ordered: readonly Listed[], cursor: string | undefined, isReversed: boolean) {
  if (cursor === undefined) return { before: ordered.length, after: 0 };
  const found = ordered.findIndex(({ id }) => (isReversed ? id <= cursor : id >= cursor));
  const before = found < 0 ? ordered.length : found;
  return { before, after: ordered[before]?.id === cursor ? before + 1 : before };
}
