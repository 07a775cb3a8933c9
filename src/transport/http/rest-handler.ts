import type { MetricsText } from "../../telemetry/metrics.js";
import { ServerCall } from "../call/server-call.js";
import type { CommonHeaders } from "../common-headers.js";
import type { HandlerOptions } from "../handler.js";
import { type Exchange, refuse } from "./exchange.js";
import { unknownPath, urlTooLong, wrongMethod } from "./http-failure.js";
import { JsonBodies } from "./json-body.js";
import { Operations } from "./operations.js";
import type { BoundRequest } from "./query-parameters.js";
import { isRepeatable, RepeatedGets } from "./repeated-gets.js";
import type { RouteMatch, Routes } from "./routes.js";
import { StreamResponse } from "./stream-response.js";
import { UnaryResponse, type UnaryTarget } from "./unary-response.js";

/** Options of the handler. */
export interface RestHandlerOptions extends HandlerOptions {
  /** Undefined: `/metrics` is not served. */
  readonly metrics: MetricsText | undefined;
  readonly common: CommonHeaders;
  readonly routes: Routes;
}

/** The number of URLs that are remembered with their requests. */
export const rememberedUrlsMax = 4_096;

/** Longer URLs are not remembered. */
export const rememberedUrlLengthMax = 256;

/** The HTTP API: GET with parameters in the URL, JSON and streams as responses, in both HTTP versions. */
export class RestHandler {
  /** The repeated GETs of its connections. */
  readonly repeated: RepeatedGets;
  readonly #options: RestHandlerOptions;
  readonly #operations: Operations;
  readonly #bodies: JsonBodies;
  /** The value of that header on every stream. */
  readonly #vary: string;
  readonly #targets = new Map<string, UnaryTarget>();

  constructor(options: RestHandlerOptions) {
    this.#options = options;
    this.#operations = new Operations(options);
    const { common, clients } = options;
    const { keepAliveTimeoutMs } = options.limits;
    this.#bodies = new JsonBodies({ vary: common.vary("accept-encoding"), keepAliveTimeoutMs });
    const target = (url: string): UnaryTarget | undefined => this.#targets.get(url);
    this.repeated = new RepeatedGets({ common, clients, bodies: this.#bodies, target });
    this.#vary = common.vary("accept", "accept-encoding");
  }

  /** Serves a GET or HEAD of a remembered URL. False: it is not remembered. */
  takeRemembered(exchange: Exchange): boolean {
    const target = this.#targets.get(exchange.request.url ?? "");
    if (target === undefined) return false;
    this.#unary(target, exchange);
    return true;
  }

  /** Serves any request. `path` and `query` are those of its URL, undecoded. */
  handle(exchange: Exchange, path: string, query: string): void {
    try {
      this.#dispatch(exchange, path, query);
    } catch (thrown) {
      refuse(exchange, thrown, this.#options.log);
    }
  }

  #dispatch(exchange: Exchange, path: string, query: string): void {
    const { request, response, common, head } = exchange;
    const { limits, routes, log } = this.#options;
    if (path.length + query.length >= limits.urlLengthMax) throw urlTooLong(limits.urlLengthMax);
    const operation = this.#operations.matches(path);
    const match = operation ? undefined : routes.match(path);
    if (!operation && match === undefined) throw unknownPath(path);
    if (!head && request.method !== "GET") throw wrongMethod(request.method ?? "");
    if (match === undefined) {
      this.#operations.handle(path, response, common, head).catch((thrown) => refuse(exchange, thrown, log));
      return;
    }
    const bound = match.route.parameters.bind(match.segments, query);
    const { method } = match.route;
    if (method.kind === "unary") {
      const target = {
        method,
        message: bound.message,
        counters: this.#options.requests.counters(method, "http"),
        options: this.#options,
        terms: this.#options.routes.terms,
        cached: false,
      };
      this.#remember(request.url ?? "", target);
      this.#unary(target, exchange);
    } else {
      this.#stream(match, bound, exchange);
    }
  }

  #remember(url: string, target: UnaryTarget): void {
    if (url.length > rememberedUrlLengthMax) return;
    if (this.#targets.size >= rememberedUrlsMax) this.#targets.clear();
    this.#targets.set(url, target);
  }

  #unary(target: UnaryTarget, exchange: Exchange): void {
    const { request, response } = exchange;
    const wire = new UnaryResponse(exchange, this.#bodies);
    const call = new ServerCall(target, wire, this.#options.clients.ofRequest(request), request.headers);
    call.invoke(target.message);
    target.cached = wire.answered !== undefined && isRepeatable(wire.answered);
    if (!call.isDone) response.once("close", () => call.left());
  }

  #stream(match: RouteMatch, bound: BoundRequest, exchange: Exchange): void {
    const { request, response } = exchange;
    const { method } = match.route;
    const wire = new StreamResponse({ method, bound, exchange, vary: this.#vary });
    const counters = this.#options.requests.counters(method, wire.protocol);
    const served = { method, counters, options: this.#options, terms: this.#options.routes.terms };
    const call = new ServerCall(served, wire, this.#options.clients.ofRequest(request), request.headers);
    wire.onDrain = () => call.drained();
    response.once("close", () => call.left());
    // The client of a pipelined request may be gone when its turn comes.
    if (response.destroyed) call.left();
    else call.invoke(bound.message);
  }
}
