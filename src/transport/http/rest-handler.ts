import type { Message } from "@bufbuild/protobuf";
import type { MetricsText } from "../../telemetry/metrics.js";
import { chooseCoding } from "../call/content-coding.js";
import { type ServedMethod, ServerCall } from "../call/server-call.js";
import type { CommonHeaders, HeaderFields } from "../common-headers.js";
import type { Exchange } from "../connections/exchange.js";
import { toFailure, unknownPath, urlTooLong, wrongMethod } from "../errors.js";
import type { HandlerOptions } from "../options.js";
import { WholeResponse } from "../whole-response.js";
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

/** The method and message of a URL, kept for repeated requests. */
interface UnaryTarget extends ServedMethod {
  readonly message: Message;
}

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
    const target = this.#targets.get(exchange.url);
    if (target === undefined) return false;
    this.#unary(target, exchange);
    return true;
  }

  /** Serves any request. `path` and `query` are those of its URL, undecoded. */
  handle(exchange: Exchange, path: string, query: string): void {
    const { limits, routes, log } = this.#options;
    if (path.length + query.length >= limits.urlLengthMax) throw urlTooLong(limits.urlLengthMax);
    const operation = this.#operations.matches(path);
    const match = operation ? undefined : routes.match(path);
    if (!operation && match === undefined) throw unknownPath(path);
    if (!exchange.isHead && exchange.method !== "GET") throw wrongMethod(exchange.method);
    if (match === undefined) {
      this.#operations.handle(path, exchange).catch((thrown) => exchange.sendError(toFailure(thrown, log)));
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
      this.#remember(exchange.url, target);
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
    const format = { codec: "json", contentType: "application/json", name: "json", vary: this.#vary } as const;
    const wire = new WholeResponse(exchange, format, chooseCoding(exchange.headers["accept-encoding"]?.toString()));
    const call = new ServerCall(target, wire, exchange);
    call.invoke(target.message);
    if (!call.isDone) exchange.output.once("close", () => call.left());
  }

  #stream(match: RouteMatch, bound: BoundRequest, exchange: Exchange): void {
    const { method } = match.route;
    const wire = new StreamResponse(method, bound, exchange, this.#streamVary);
    const counters = this.#options.requests.counters(method, wire.protocol);
    const served = { method, counters, options: this.#options, terms: this.#options.routes.terms };
    const call = new ServerCall(served, wire, exchange);
    wire.onDrain = () => call.drained();
    exchange.output.once("close", () => call.left());
    // The client of a pipelined request may be gone when its turn comes.
    if (exchange.output.destroyed) call.left();
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

/**
 * The endpoints for operators: `/healthz` (200 while the process runs), `/readyz` (200 when ready, 503 while it loads
 * or drains) and `/metrics` (Prometheus text). Always at the root, regardless of the base path. The status is for
 * pages, which are behind it.
 */
class Operations {
  readonly #options: RestHandlerOptions;
  #text = "";
  #bytes = Buffer.alloc(0);
  #making: Promise<Buffer> | undefined;

  constructor(options: RestHandlerOptions) {
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

  async handle(path: string, exchange: Exchange): Promise<void> {
    const { metrics, readiness, status } = this.#options;
    if (path === status?.path) sendJson(exchange, 200, { status: readiness(), ...status.read() });
    else if (path === "/metrics" && metrics !== undefined) {
      send(exchange, 200, metrics.contentType, await this.#metricsBytes(metrics));
    } else if (path === "/healthz") sendJson(exchange, 200, { status: "alive" });
    else if (readiness() === "ready") sendJson(exchange, 200, { status: "ready" });
    else sendJson(exchange, 503, { status: readiness() }, { "retry-after": 1 });
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

function sendJson(exchange: Exchange, status: number, content: object, headers: HeaderFields = {}): void {
  send(exchange, status, "application/json", Buffer.from(JSON.stringify(content)), headers);
}

function send(exchange: Exchange, status: number, type: string, body: Buffer, headers: HeaderFields = {}): void {
  const fields = { "content-type": type, "content-length": body.length, "cache-control": "no-store", ...headers };
  exchange.sendCounted(status, fields, body);
}
