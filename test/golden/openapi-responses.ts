import { blockHeaderNames } from "../../src/domain/block-headers.js";
import type { Method } from "../../src/domain/service.js";
import { liveLimits } from "../../src/live/limits.js";
import { isHttpBody, type Route } from "../../src/transport/http/routes.js";
import { defaultTransportLimits } from "../../src/transport/options.js";
import { commentOf, title } from "./definitions.js";
import { describe, reference, type Schema } from "./openapi-schemas.js";

/** Real requests and responses of a simulated network, cut to what fits a page. */
export interface Examples {
  /** By parameter. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** By method; of a stream the first message. */
  readonly responses: Readonly<Record<string, unknown>>;
  /** By HTTP status. */
  readonly errors: Readonly<Record<string, unknown>>;
  readonly csv: string;
  readonly resumeToken: string;
}

const [heightName, timestampName] = blockHeaderNames;
const decimal = { type: "string", pattern: "^[0-9]+$" };
const seconds = { type: "integer", minimum: 0 };

/** Header fields of responses, by name. */
export const headerComponents: Readonly<Record<string, Schema>> = {
  [heightName]: {
    description: "Height of the newest block that the response knows. Absent before the first block.",
    schema: decimal,
  },
  [timestampName]: {
    description: "Time of that block, in Unix nanoseconds. Absent before the first block.",
    schema: decimal,
  },
  "marketd-staleness": {
    description: "Age of the newest block, in seconds. Absent before the first block.",
    schema: seconds,
  },
  etag: {
    description:
      "Changes with the content. The same from every process; different for each encoding and each `maxDepth`.",
    schema: { type: "string" },
  },
  "retry-after": { description: "Seconds to wait before the next attempt.", schema: seconds },
};

const dataHeaders = [heightName, timestampName, "marketd-staleness"];

interface ErrorKind {
  readonly name: string;
  readonly text: string;
  /** Where it can occur; default: everywhere. */
  readonly occurs?: (route: Route) => boolean;
  readonly retry?: boolean;
}

const { urlLengthMax, headerBytesMax } = defaultTransportLimits;
const isStream = ({ method }: Route): boolean => method.kind === "server_streaming";

const errorKinds: Readonly<Record<number, ErrorKind>> = {
  400: {
    name: "BadRequest",
    text:
      "INVALID_ARGUMENT: a parameter, a cursor or a range is malformed, or parameters exclude each other. `details` " +
      "name the parameter. FAILED_PRECONDITION or OUT_OF_RANGE: the place has no books, or is not there yet; `details` name " +
      "the nearest.",
  },
  403: {
    name: "OriginNotAllowed",
    text: "PERMISSION_DENIED: a page of an origin that the operator does not allow asked for a WebSocket.",
    occurs: isStream,
  },
  404: {
    name: "NotFound",
    text: "NOT_FOUND: the market is unknown, was not announced yet, or has no market data yet (`NO_MARKET_DATA_YET`).",
    occurs: namesNotFound,
  },
  408: { name: "RequestTimeout", text: "DEADLINE_EXCEEDED: the request did not arrive whole in time." },
  414: { name: "UrlTooLong", text: `INVALID_ARGUMENT: path and query are longer than ${urlLengthMax} characters.` },
  417: { name: "ExpectationFailed", text: "INVALID_ARGUMENT: `Expect` has another value than `100-continue`." },
  426: {
    name: "WebSocketVersion",
    text: "INVALID_ARGUMENT: the WebSocket handshake asks for another version than 13.",
    occurs: isStream,
  },
  429: { name: "TooManyRequests", text: "RESOURCE_EXHAUSTED: a limit of this client is reached.", retry: true },
  431: { name: "HeadersTooLarge", text: `INVALID_ARGUMENT: the headers are longer than ${headerBytesMax} bytes.` },
  500: { name: "InternalError", text: "INTERNAL: a fault of the service. `message` has an id to report." },
  503: {
    name: "Unavailable",
    text: "UNAVAILABLE: the service is overloaded, draining or not ready, or its database cannot be reached.",
    retry: true,
  },
  504: { name: "DeadlineExceeded", text: "DEADLINE_EXCEEDED: the request took longer than the service works on one." },
};

/** The definitions say which methods have NOT_FOUND. */
function namesNotFound({ method }: Route): boolean {
  return [method.desc, ...method.desc.input.fields].some((desc) => commentOf(desc).includes("NOT_FOUND"));
}

/** Whether responses have an ETag: pages are read from the database, all others are in memory under a version. */
export function hasEtag({ method }: Route): boolean {
  const isPaged = method.desc.input.fields.some(({ message }) => message?.name === "Pagination");
  return method.kind === "unary" && (!isPaged || listsInMemory.has(method.desc.name));
}

/** Pages that are not read from the database. */
const listsInMemory: ReadonlySet<string> = new Set(["ListAssets", "ListMarkets"]);

/** What the operations of GET and HEAD share. HEAD has no bodies. */
export function responseComponents(examples: Examples): Readonly<Record<string, Schema>> {
  const entries = Object.entries(errorKinds).flatMap(([status, { name, text, retry }]) => {
    const headers = headersOf(retry === true ? ["retry-after", ...dataHeaders] : dataHeaders);
    const example = examples.errors[status];
    const content = jsonContent(reference("schemas", "Status"), example);
    return [
      [name, { description: text, headers, content }],
      [`${name}Head`, { description: text, headers }],
    ] as const;
  });
  return Object.fromEntries(entries);
}

/** The responses of an operation by their status. */
export function responsesOf(route: Route, examples: Examples, isHead: boolean): Readonly<Record<string, Schema>> {
  const headers = headersOf(hasEtag(route) ? ["etag", ...dataHeaders] : dataHeaders);
  const content = isHead ? {} : { content: contentOf(route, examples) };
  const errors = Object.entries(errorKinds)
    .filter(([, { occurs }]) => occurs?.(route) !== false)
    .map(([status, { name }]) => [status, reference("responses", isHead ? `${name}Head` : name)] as const);
  return {
    ...(isStream(route) && !isHead ? { 101: { description: "The connection is a WebSocket from here on." } } : {}),
    200: { description: describe(route.method.desc.output), headers, ...content },
    ...(hasEtag(route) ? { 304: { description: "The ETag of `If-None-Match` is still right.", headers } } : {}),
    ...Object.fromEntries(errors),
  };
}

function headersOf(names: readonly string[]): Schema {
  return Object.fromEntries(names.map((name) => [name, reference("headers", name)]));
}

function jsonContent(schema: Schema, example: unknown): Schema {
  return { "application/json": { schema, ...(example === undefined ? {} : { example }) } };
}

function contentOf({ method }: Route, examples: Examples): Schema {
  const { name, output } = method.desc;
  const example = examples.responses[name];
  if (method.kind === "unary") return jsonContent(reference("schemas", title(output)), example);
  const line = reference("schemas", lineName(method));
  const lines = { "application/x-ndjson": { schema: line, example }, ...jsonContent(line, example) };
  if (isHttpBody(method)) return { ...lines, "text/csv": { schema: { type: "string" }, example: examples.csv } };
  const event = `id: ${examples.resumeToken}\ndata: ${JSON.stringify(example)}\n\n`;
  return { ...lines, "text/event-stream": { schema: reference("schemas", eventName(method)), example: event } };
}

function lineName({ desc }: Method): string {
  return `${desc.name}Line`;
}

function eventName({ desc }: Method): string {
  return `${desc.name}Event`;
}

/** The lines of streams, and the events of those that have some. */
export function streamSchemas(routes: readonly Route[]): Readonly<Record<string, Schema>> {
  const streams = routes.filter(isStream);
  const lines = streams.map(({ method }) => [lineName(method), lineSchema(method)]);
  const events = streams
    .filter(({ method }) => !isHttpBody(method))
    .map(({ method }) => [eventName(method), eventSchema(method)]);
  return Object.fromEntries([...lines, ...events]);
}

function lineSchema({ desc }: Method): Schema {
  return {
    type: "object",
    description: "A line of the stream. It has a `result`; if the stream fails, the last line has an `error` instead.",
    properties: { result: reference("schemas", title(desc.output)), error: reference("schemas", "Status") },
    minProperties: 1,
    maxProperties: 1,
  };
}

function eventSchema(method: Method): Schema {
  const contentSchema = reference("schemas", lineName(method));
  return {
    type: "object",
    description: "An event of the stream.",
    properties: {
      id: {
        type: "string",
        description: "Resume token, to be sent as `Last-Event-ID`: the stream goes on behind this event.",
      },
      event: { type: "string", description: "`error` if the stream fails." },
      retry: { type: "integer", description: "Milliseconds to wait before the next attempt." },
      data: { type: "string", contentMediaType: "application/json", contentSchema },
    },
    required: ["data"],
  };
}

const linesText =
  '**Lines** (`application/x-ndjson`, or `application/json`): one JSON object per line, `{"result": …}`. If the stream ' +
  'fails, the last line is `{"error": …}`.';
const socketText =
  "**WebSocket** (an upgrade at the same URL): one JSON object per text message, like a line. An error is a message, too. " +
  "Then the connection is closed: 1008 for a fault of the client, 1013 if the service is overloaded or draining, 1011 " +
  "otherwise.";

/** What OpenAPI has no words for: how a stream is framed. */
export function framingText({ method }: Route): string {
  if (method.kind === "unary") return "";
  if (isHttpBody(method)) {
    return [
      linesText,
      "**The file itself** (`Accept: text/csv`, or `alt=media`): headers and trailers whose names begin with `export-` " +
        "say what it is and what it held. A failure breaks the body off.",
      socketText,
    ].join("\n\n");
  }
  return [
    "The response does not end by itself.",
    linesText,
    "**Server-sent events** (`Accept: text/event-stream`, or `alt=sse`): `id` is a resume token: with it as " +
      "`Last-Event-ID`, as browsers send it when they reconnect, the stream goes on. `data` is the same object as a line. A failure is `event: error`, with `retry` if it says how long to wait.",
    socketText,
    `After ${liveLimits.heartbeatMs / 1000} seconds without a message an empty one is sent.`,
  ].join("\n\n");
}
