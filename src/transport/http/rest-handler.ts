import type { MetricsText } from "../../telemetry/metrics.js";
import { ServerCall } from "../call/server-call.js";
import type { CommonHeaders, HeaderFields } from "../common-headers.js";
import { unknownPath, urlTooLong, wrongMethod } from "../errors.js";
import type { HandlerOptions, Readiness } from "../options.js";
import { type Exchange, type HttpResponse, refuse, sendWhole } from "./exchange.js";
import { UnaryResponse, type UnaryTarget } from "./json-response.js";
import type { BoundRequest } from "./query-parameters.js";
import type { RouteMatch, Routes } from "./routes.js";
import { StreamResponse } from "./stream-response.js";

/** Options of the handler. */
export interface RestHandlerOptions extends HandlerOptions {
  /** Undefined: `/metrics` is not served. */
  readonly metrics: MetricsText | undefined;
  readonly status: ServiceStatus | undefined;
  readonly common: CommonHeaders;
  readonly routes: Routes;
}

/** The number of URLs that are remembered with their requests. */
export const rememberedUrlsMax = 4_096;

/** Longer URLs are not remembered. */
export const rememberedUrlLengthMax = 256;

/** The HTTP API: GET with parameters in the URL, JSON and streams as responses, in both HTTP versions. */
export class RestHandler {
  readonly #options: RestHandlerOptions;
  readonly #operations: Operations;
  /** The value of `Vary` on every response to a unary method, and on every stream. */
  readonly #vary: string;
  readonly #streamVary: string;
  readonly #targets = new Map<string, UnaryTarget>();

  constructor(options: RestHandlerOptions) {
    this.#options = options;
    this.#operations = new Operations(options);
    const { common } = options;
    this.#vary = common.vary("accept-encoding");
    this.#streamVary = common.vary("accept", "accept-encoding");
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
    const wire = new UnaryResponse(exchange, this.#vary);
    const call = new ServerCall(target, wire, this.#options.clients.ofRequest(request), request.headers);
    call.invoke(target.message);
    if (!call.isDone) response.once("close", () => call.left());
  }

  #stream(match: RouteMatch, bound: BoundRequest, exchange: Exchange): void {
    const { request, response } = exchange;
    const { method } = match.route;
    const wire = new StreamResponse({ method, bound, exchange, vary: this.#streamVary });
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

/** What a page asks of the service again and again. */
export interface ServiceStatus {
  /** Where it is served. */
  readonly path: string;
  /** A small object; its undefined fields are left out. */
  readonly read: () => object;
}

/** What the operational endpoints report. */
export interface OperationsOptions {
  /** Undefined: there is no `/metrics`. */
  readonly metrics: MetricsText | undefined;
  /** Undefined: it is not served. */
  readonly status: ServiceStatus | undefined;
  readonly readiness: () => Readiness;
}

/**
 * The endpoints for operators: `/healthz` (200 while the process runs), `/readyz` (200 when ready, 503 while it loads
 * or drains) and `/metrics` (Prometheus text). Always at the root, regardless of the base path. The status is for
 * pages, which are behind it.
 */
class Operations {
  readonly #options: OperationsOptions;
  #text = "";
  #bytes = Buffer.alloc(0);
  #making: Promise<Buffer> | undefined;

  constructor(options: OperationsOptions) {
    this.#options = options;
  }

  matches(path: string): boolean {
    const { metrics, status } = this.#options;
    return (
      path === "/healthz" ||
      path === "/readyz" ||
      (path === "/metrics" && metrics !== undefined) ||
      path === status?.path
    );
  }

  /** `head`: without a body. */
  async handle(path: string, response: HttpResponse, common: HeaderFields, head: boolean): Promise<void> {
    const { metrics, readiness, status: statusOf } = this.#options;
    if (path === statusOf?.path) {
      const text = JSON.stringify({ status: readiness(), ...statusOf.read() });
      send(response, 200, { "content-type": "application/json", ...common }, Buffer.from(text), head);
      return;
    }
    if (path === "/metrics" && metrics !== undefined) {
      const bytes = await this.#metricsBytes(metrics);
      send(response, 200, { "content-type": metrics.contentType, ...common }, bytes, head);
      return;
    }
    const state = path === "/healthz" ? "alive" : readiness();
    const status = state === "alive" || state === "ready" ? 200 : 503;
    const retry: HeaderFields = status === 503 ? { "retry-after": 1 } : {};
    const headers = { "content-type": "application/json", ...retry, ...common };
    send(response, status, headers, Buffer.from(JSON.stringify({ status: state })), head);
  }

  /** Requests share the bytes of a text, and a text while it is made. */
  #metricsBytes(metrics: MetricsText): Promise<Buffer> {
    this.#making ??= metrics
      .metrics()
      .then((text) => {
        if (text !== this.#text) this.#bytes = Buffer.from(text);
        this.#text = text;
        return this.#bytes;
      })
      .finally(() => {
        this.#making = undefined;
      });
    return this.#making;
  }
}

function send(response: HttpResponse, status: number, headers: HeaderFields, body: Buffer, head: boolean): void {
  const fields = { "content-length": body.length, "cache-control": "no-store", ...headers };
  sendWhole(response, status, fields, body, head);
}
