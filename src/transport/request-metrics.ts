import { Histogram } from "prom-client";
import type { Api, Method } from "../domain/service.js";
import { statusNames } from "../encoding/status.js";
import { addCounter, addGauge, type Metrics } from "../telemetry/metrics.js";

/** The protocols that metrics distinguish. */
export const protocols = ["http", "sse", "websocket", "connect", "grpc-web", "grpc"] as const;

/** One of {@link protocols}. */
export type Protocol = (typeof protocols)[number];

/** Upper bounds of the latency buckets, in seconds. */
const latencyBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Durations that are kept until the library is given them, for each method and protocol. */
const keptDurationsMax = 256;

/**
 * The metrics of one method over one protocol. Counts are plain numbers that are copied on collection, because the
 * metrics library looks up labels for each increment. Durations are given to it many at a time: one after each request
 * takes it three times as long.
 */
export class RequestCounters {
  readonly method: string;
  readonly protocol: Protocol;
  /** Requests by gRPC status. */
  readonly byCode: Float64Array = new Float64Array(statusNames.length);
  streamsOpen = 0;
  readonly #durations: Histogram.Internal<"method" | "protocol">;
  readonly #kept = new Float64Array(keptDurationsMax);
  #keptCount = 0;

  constructor(method: string, protocol: Protocol, durations: Histogram<"method" | "protocol">) {
    this.method = method;
    this.protocol = protocol;
    this.#durations = durations.labels({ method, protocol });
  }

  /** A request ended with gRPC status `code`, or a stream was refused before it opened. */
  ended(code: number): void {
    this.byCode[code] = (this.byCode[code] ?? 0) + 1;
  }

  /** A unary request ended. `startedMs` is `performance.now()` at its start. */
  answered(code: number, startedMs: number): void {
    this.ended(code);
    this.#kept[this.#keptCount++] = (performance.now() - startedMs) / 1000;
    if (this.#keptCount === keptDurationsMax) this.giveDurations();
  }

  /** Gives the durations that are kept to the metrics library. */
  giveDurations(): void {
    for (const seconds of this.#kept.subarray(0, this.#keptCount)) this.#durations.observe(seconds);
    this.#keptCount = 0;
  }

  streamOpened(): void {
    this.streamsOpen++;
  }

  /** An opened stream ended with gRPC status `code`; 1 if the client left. */
  streamClosed(code: number): void {
    this.streamsOpen--;
    this.ended(code);
  }
}

/** The metrics of a method over a protocol. Looked up once per method at the start, not per request. */
export type RequestMetrics = (method: Method, protocol: Protocol) => RequestCounters;

/** Counters for every method and protocol, registered with `metrics`. */
export function createRequestMetrics(metrics: Metrics, api: Api): RequestMetrics {
  const table = new Map<string, RequestCounters>();
  const durations = new Histogram({
    name: "marketd_request_duration_seconds",
    help: "Time to answer unary requests, from headers received to response handed to the socket.",
    labelNames: ["method", "protocol"],
    buckets: latencyBuckets,
    registers: [metrics],
    collect() {
      for (const counters of table.values()) counters.giveDurations();
    },
  });
  for (const method of api) {
    for (const protocol of protocols) {
      table.set(`${protocol} ${method.desc.name}`, new RequestCounters(method.desc.name, protocol, durations));
    }
  }
  const counters = [...table.values()];
  const requests = () =>
    counters.flatMap(({ method, protocol, byCode }) => {
      const labelled = statusNames.map((code, i) => [[method, protocol, code], byCode[i] ?? 0] as const);
      return labelled.filter(([, count]) => count > 0);
    });
  const requestsHelp = "Requests answered and streams ended, by gRPC status.";
  addCounter(metrics, "marketd_requests_total", requestsHelp, requests, { label: ["method", "protocol", "code"] });
  const streaming = new Set(api.filter(({ kind }) => kind === "server_streaming").map(({ desc }) => desc.name));
  const streams = () =>
    counters
      .filter(({ method, streamsOpen }) => streamsOpen > 0 || streaming.has(method))
      .map(({ method, protocol, streamsOpen }) => [[method, protocol], streamsOpen] as const);
  addGauge(metrics, "marketd_streams_open", "Streams that are open now.", streams, { label: ["method", "protocol"] });
  return (method, protocol) => {
    const found = table.get(`${protocol} ${method.desc.name}`);
    if (found === undefined) throw new Error(`no counters for ${method.desc.name} over ${protocol}`);
    return found;
  };
}
