import type { Message } from "@bufbuild/protobuf";
import type { Method } from "../../domain/service.js";
import { clientFailure } from "../../encoding/status.js";
import type { MetricsText } from "../../telemetry/metrics.js";
import { chooseCoding } from "../call/content-coding.js";
import { type ServedMethod, ServerCall } from "../call/server-call.js";
import type { HeaderFields } from "../common-headers.js";
import type { Exchange } from "../connections/exchange.js";
import { unknownPath, urlTooLong, wrongMethod } from "../errors.js";
import type { HandlerOptions } from "../options.js";
import type { Protocol } from "../request-metrics.js";
import { WholeResponse, type WholeResponseFormat } from "../whole-response.js";
import type { BoundRequest } from "./query-parameters.js";
import type { RouteMatch } from "./routes.js";
import { StreamResponse } from "./stream-response.js";

/** The number of URLs that are remembered with their requests. */
const rememberedUrlsMax = 4_096;

/** Longer URLs are not remembered. */
const rememberedUrlLengthMax = 256;

/** The method and message of a URL, kept for repeated requests. */
interface UnaryTarget extends ServedMethod {
  readonly message: Message;
}

/** The HTTP API: GET with parameters in the URL, JSON and streams as responses, in both HTTP versions. */
export class RestHandler {
  readonly #operations: ReadonlyMap<string, Operation>;
  /** That of every response to a unary method. */
  readonly #format: WholeResponseFormat;
  /** The value of `Vary` on every stream. */
  readonly #streamVary: string;
  readonly #targets = new Map<string, UnaryTarget>();

  constructor(private readonly options: HandlerOptions) {
    this.#operations = operations(options);
    const { common } = options;
    const vary = common.vary("accept-encoding");
    this.#format = { codec: "json", contentType: "application/json", name: "json", vary };
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
    const { limits, routes, log } = this.options;
    if (path.length + query.length >= limits.urlLengthMax) throw urlTooLong(limits.urlLengthMax);
    const operation = this.#operations.get(path);
    const match = operation === undefined ? routes.match(path) : undefined;
    if (operation === undefined && match === undefined) throw unknownPath(path);
    if (!exchange.isRead) throw wrongMethod(exchange.method);
    operation?.(exchange)?.catch((thrown: unknown) => exchange.sendError(clientFailure(thrown, log)));
    if (match !== undefined) this.#call(match, query, exchange);
  }

  #call(match: RouteMatch, query: string, exchange: Exchange): void {
    const bound = match.route.parameters.bind(match.segments, query);
    const { method } = match.route;
    if (method.kind !== "unary") {
      this.#stream(match, bound, exchange);
      return;
    }
    const target = { ...this.#served(method, "http"), message: bound.message };
    this.#remember(exchange.url, target);
    this.#unary(target, exchange);
  }

  #served(method: Method, protocol: Protocol): ServedMethod {
    const { requests, routes } = this.options;
    return { method, counters: requests(method, protocol), options: this.options, terms: routes.terms };
  }

  #remember(url: string, target: UnaryTarget): void {
    if (url.length > rememberedUrlLengthMax) return;
    if (this.#targets.size >= rememberedUrlsMax) this.#targets.clear();
    this.#targets.set(url, target);
  }

  #unary(target: UnaryTarget, exchange: Exchange): void {
    const coding = chooseCoding(exchange.headers["accept-encoding"]?.toString());
    const call = new ServerCall(target, new WholeResponse(exchange, this.#format, coding), exchange);
    call.invoke(target.message);
    if (!call.isDone) exchange.output.once("close", () => call.left());
  }

  #stream(match: RouteMatch, bound: BoundRequest, exchange: Exchange): void {
    const { method } = match.route;
    const wire = new StreamResponse(method, bound, exchange, this.#streamVary);
    const call = new ServerCall(this.#served(method, wire.protocol), wire, exchange);
    wire.onDrain = () => call.drained();
    exchange.output.once("close", () => call.left());
    // The client of a pipelined request may be gone when its turn comes.
    if (exchange.output.destroyed) call.left();
    else call.invoke(bound.message);
  }
}

type Operation = (exchange: Exchange) => void | Promise<void>;

/**
 * The endpoints for operators by path: `/healthz` (200 while the process runs), `/readyz` (200 when ready, 503 while it
 * loads or drains) and `/metrics` (Prometheus text). Always at the root, regardless of the base path. The status is for
 * pages, which are behind it.
 */
function operations({ metricsText, status, readiness }: HandlerOptions): ReadonlyMap<string, Operation> {
  const served = new Map<string, Operation>([
    ["/healthz", (exchange) => sendJson(exchange, 200, { status: "alive" })],
    [
      "/readyz",
      (exchange) => {
        if (readiness() === "ready") sendJson(exchange, 200, { status: "ready" });
        else sendJson(exchange, 503, { status: readiness() }, { "retry-after": 1 });
      },
    ],
  ]);
  if (metricsText !== undefined) {
    const bytes = sharedBytes(metricsText);
    served.set("/metrics", async (exchange) => send(exchange, 200, metricsText.contentType, await bytes()));
  }
  if (status !== undefined) {
    served.set(status.path, (exchange) => sendJson(exchange, 200, { status: readiness(), ...status.read() }));
  }
  return served;
}

/** Requests share the bytes of a text that is being made. */
function sharedBytes(metricsText: MetricsText): () => Promise<Buffer> {
  let making: Promise<Buffer> | undefined;
  const make = async (): Promise<Buffer> => Buffer.from(await metricsText.metrics());
  return () => {
    making ??= make().finally(() => {
      making = undefined;
    });
    return making;
  };
}

function sendJson(exchange: Exchange, status: number, content: object, headers: HeaderFields = {}): void {
  send(exchange, status, "application/json", Buffer.from(JSON.stringify(content)), headers);
}

function send(exchange: Exchange, status: number, type: string, body: Buffer, headers: HeaderFields = {}): void {
  const fields = { "content-type": type, "content-length": body.length, "cache-control": "no-store", ...headers };
  exchange.sendCounted(status, fields, body);
}
