import type { Failure } from "../domain/failure.js";
import type { Log } from "../telemetry/log.js";
import type { CommonHeaders } from "./common-headers.js";
import type { AnyRequest, AnyResponse } from "./handler.js";
import { type Exchange, refuse } from "./http/exchange.js";
import { allowedMethods } from "./http/http-failure.js";
import { splitTarget } from "./http/request-target.js";
import type { RestHandler } from "./http/rest-handler.js";
import type { StaticFiles } from "./http/static-files.js";
import type { RpcHandler } from "./protocols/rpc-handler.js";

/** The handlers that requests are passed to. */
export interface RequestDispatcherOptions {
  readonly common: CommonHeaders;
  /** Empty, or `/prefix`. */
  readonly basePath: string;
  readonly files: StaticFiles;
  readonly rpc: RpcHandler;
  readonly rest: RestHandler;
  readonly log: Log;
}

/** Passes each request to the handler that serves it. Remembered URLs are tried first. */
export class RequestDispatcher {
  readonly #options: RequestDispatcherOptions;

  constructor(options: RequestDispatcherOptions) {
    this.#options = options;
  }

  dispatch(request: AnyRequest, response: AnyResponse): void {
    const { rest, log } = this.#options;
    const { method } = request;
    const exchange = this.#exchange(request, response);
    try {
      if ((method === "GET" || exchange.head) && rest.takeRemembered(exchange)) return;
      this.#dispatchNew(exchange, request, response);
    } catch (thrown) {
      refuse(exchange, thrown, log);
    }
  }

  /** Responds to a request with an error. */
  refuse(request: AnyRequest, response: AnyResponse, failure: Failure): void {
    refuse(this.#exchange(request, response), failure, this.#options.log);
  }

  #exchange(request: AnyRequest, response: AnyResponse): Exchange {
    const common = this.#options.common.of(request.headers.origin);
    return { request, response, common, head: request.method === "HEAD" };
  }

  #dispatchNew(exchange: Exchange, request: AnyRequest, response: AnyResponse): void {
    const { rest, rpc, files, basePath } = this.#options;
    const { method = "" } = request;
    const { path, query } = splitTarget(request.url ?? "/");
    const inBase = path.startsWith(`${basePath}/`);
    const inner = inBase ? path.slice(basePath.length) : path;
    if (method === "OPTIONS") {
      this.#preflight(exchange, rpc.allowed(inner) ?? allowedMethods);
      return;
    }
    if ((method === "GET" || exchange.head) && inBase && files.serve(exchange, inner)) return;
    if (!rpc.matches(method, inner, request.headers)) {
      rest.handle(exchange, path, query);
      return;
    }
    rpc.handle({ request, response, common: exchange.common }, inner, query);
  }

  #preflight({ request, response, common }: Exchange, allow: string): void {
    const requested = request.headers["access-control-request-headers"];
    response.writeHead(204, { ...common, ...this.#options.common.preflight(requested, allow) });
    response.end();
  }
}
