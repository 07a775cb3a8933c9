import type { CommonHeaders } from "./common-headers.js";
import type { HttpLane } from "./http/http-lane.js";
import { splitTarget } from "./http/request-target.js";
import type { StaticFiles } from "./http/static-files.js";
import type { AnyRequest, AnyResponse, RequestLane } from "./lane.js";

/** Where requests can go. */
export interface RequestDispatcherOptions {
  readonly common: CommonHeaders;
  /** Empty, or `/prefix`. */
  readonly basePath: string;
  readonly files: StaticFiles;
  readonly connect: RequestLane;
  readonly http: HttpLane;
}

/** Gives each request to the lane that serves it. What was asked for before goes the shortest way. */
export class RequestDispatcher {
  readonly #options: RequestDispatcherOptions;

  constructor(options: RequestDispatcherOptions) {
    this.#options = options;
  }

  dispatch(request: AnyRequest, response: AnyResponse): void {
    const { common, files, http, connect, basePath } = this.#options;
    const { method = "", url = "/", headers } = request;
    const fields = common.of(headers.origin);
    const exchange = { request, response, common: fields, head: method === "HEAD" };
    const reads = method === "GET" || exchange.head;
    if (reads && http.takeRemembered(exchange)) return;
    const { path, query } = splitTarget(url);
    const inBase = path.startsWith(`${basePath}/`);
    const inner = inBase ? path.slice(basePath.length) : path;
    if (reads && inBase && files.answer(exchange, inner)) return;
    if (!connect.matches(method, inner, headers)) {
      http.handle(exchange, path, query);
      return;
    }
    for (const name in fields) response.setHeader(name, fields[name] ?? "");
    request.url = query === "" ? inner : `${inner}?${query}`;
    connect.handle(request, response);
  }
}
