import { performance } from "node:perf_hooks";
import type { Answer } from "../../domain/answer.js";
import type { MetricsText } from "../../telemetry/metrics.js";
import type { CommonHeaders } from "../common-headers.js";
import { countAnswer, endWithBody } from "../connections/unread-answers.js";
import { clientLeft } from "../grpc/deadline.js";
import type { LaneOptions } from "../lane.js";
import { RequestCall } from "../request-call.js";
import { grpcCode } from "../status.js";
import { answerWithin } from "./answer-within.js";
import { AnsweredBodies, type AnsweredBody } from "./answered-body.js";
import { chooseCoding } from "./content-coding.js";
import { type Exchange, refuse } from "./exchange.js";
import { unknownPath, urlTooLong, wrongMethod } from "./http-failure.js";
import { Operations } from "./operations.js";
import { isRepeatable, RepeatedGets } from "./repeated-gets.js";
import type { Routes } from "./routes.js";
import { StreamResponder } from "./stream-responder.js";
import type { UnaryTarget } from "./unary-target.js";

/** What the HTTP lane needs. */
export interface HttpLaneOptions extends LaneOptions {
  /** Undefined: there is no `/metrics`. */
  readonly metrics: MetricsText | undefined;
  readonly common: CommonHeaders;
  readonly routes: Routes;
}

/** How many URLs are remembered with the request they stand for. */
export const rememberedUrlsMax = 4_096;

/** Longer URLs are not remembered. */
export const rememberedUrlLengthMax = 256;

/** The HTTP API: GET with parameters in the URL, JSON and streams as answers, in both HTTP versions. */
export class HttpLane {
  /** For connections that ask the same again. */
  readonly repeated: RepeatedGets;
  readonly #options: HttpLaneOptions;
  readonly #operations: Operations;
  readonly #bodies: AnsweredBodies;
  readonly #streams: StreamResponder;
  readonly #targets = new Map<string, UnaryTarget>();

  constructor(options: HttpLaneOptions) {
    this.#options = options;
    this.#operations = new Operations(options);
    const origin = options.common.vary === "" ? "" : `, ${options.common.vary}`;
    const { keepAliveTimeoutMs } = options.limits;
    this.#bodies = new AnsweredBodies({ vary: `accept-encoding${origin}`, keepAliveTimeoutMs });
    const target = (url: string): UnaryTarget | undefined => this.#targets.get(url);
    const { common, clients } = options;
    this.repeated = new RepeatedGets({ common, clients, bodies: this.#bodies, target });
    this.#streams = new StreamResponder(options, `accept, accept-encoding${origin}`);
  }

  /** Answers a GET or HEAD of a URL that was answered before; false: not one of those. */
  takeRemembered(exchange: Exchange): boolean {
    const target = this.#targets.get(exchange.request.url ?? "");
    if (target === undefined) return false;
    this.#unary(target, exchange, performance.now());
    return true;
  }

  /** Answers any request. `path` and `query` are those of its URL, undecoded. */
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
        cells: this.#options.requests.cells(method, "http"),
        atHand: false,
      };
      this.#remember(request.url ?? "", target);
      this.#unary(target, exchange, performance.now());
    } else {
      this.#streams.respond(method, bound, exchange);
    }
  }

  #remember(url: string, target: UnaryTarget): void {
    if (url.length > rememberedUrlLengthMax) return;
    if (this.#targets.size >= rememberedUrlsMax) this.#targets.clear();
    this.#targets.set(url, target);
  }

  #unary(target: UnaryTarget, exchange: Exchange, startedMs: number): void {
    const { method, message, cells } = target;
    const { log, limits } = this.#options;
    const failed = (thrown: unknown): void => {
      cells.answered(grpcCode(refuse(exchange, thrown, log)), startedMs);
    };
    try {
      const call = new RequestCall(this.#options.clients.ofRequest(exchange.request), exchange.request.headers);
      const answer = method.answer(message, call);
      target.atHand = !(answer instanceof Promise) && isRepeatable(answer);
      if (answer instanceof Promise) {
        exchange.response.once("close", () => call.abort(clientLeft()));
        answerWithin(answer, limits.requestTimeoutMs, call)
          .then((later) => this.#answer(later, exchange))
          .then(() => cells.answered(0, startedMs), failed);
        return;
      }
      const answering = this.#answer(answer, exchange);
      if (answering === undefined) cells.answered(0, startedMs);
      else answering.then(() => cells.answered(0, startedMs), failed);
    } catch (thrown) {
      failed(thrown);
    }
  }

  #answer(answer: Answer, exchange: Exchange): Promise<void> | undefined {
    const acceptEncoding = exchange.request.headers["accept-encoding"];
    const coding = typeof acceptEncoding === "string" ? chooseCoding(acceptEncoding) : undefined;
    const body = this.#bodies.of(answer, coding);
    const own = answer.metadata?.headers;
    if (body instanceof Promise) return body.then((ready) => sendBody(ready, exchange, own));
    sendBody(body, exchange, own);
    return undefined;
  }
}

function sendBody(
  body: AnsweredBody,
  { request, response, common, head }: Exchange,
  own: ReadonlyMap<string, string> | undefined,
): void {
  const notModified = body.isNotModified(request.headers["if-none-match"]);
  const { stream } = response;
  if (stream !== undefined && !head && !notModified) countAnswer(stream, body.bytes.length);
  const headers = notModified ? body.notModifiedHeaders(common) : body.headers(common);
  response.writeHead(notModified ? 304 : 200, own === undefined ? headers : { ...headers, ...Object.fromEntries(own) });
  if (notModified) {
    response.end();
    return;
  }
  if (head) response.end();
  else if (stream === undefined) response.end(body.bytes);
  else endWithBody(response, stream, body.bytes);
}
