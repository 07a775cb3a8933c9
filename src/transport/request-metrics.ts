import { performance } from "node:perf_hooks";
import { Counter, Gauge, Histogram, type MetricValueWithName } from "prom-client";
import type { Api, Method } from "../domain/service.js";
import type { Metrics } from "../telemetry/metrics.js";

/** How a request came. */
export const protocols = ["http", "sse", "websocket", "connect", "grpc-web", "grpc"] as const;

/** One of {@link protocols}. */
export type Protocol = (typeof protocols)[number];

/** Upper bounds of the latency buckets, in seconds. */
export const latencyBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** gRPC status names by number, as the `code` label. */
const codeNames = [
  "ok",
  "cancelled",
  "unknown",
  "invalid_argument",
  "deadline_exceeded",
  "not_found",
  "already_exists",
  "permission_denied",
  "resource_exhausted",
  "failed_precondition",
  "aborted",
  "out_of_range",
  "unimplemented",
  "internal",
  "unavailable",
  "data_loss",
  "unauthenticated",
];

/**
 * The numbers of one method over one protocol. Plain counters, because the metrics library looks labels up anew for each
 * observation, which a hot answer would feel; the library reads them when it is scraped.
 */
export class RequestCounters {
  readonly method: string;
  readonly protocol: Protocol;
  /** Requests by gRPC status. */
  readonly byCode: Float64Array = new Float64Array(codeNames.length);
  /** Answers by latency bucket, the last one for all above. Not cumulative. */
  readonly byLatency: Float64Array = new Float64Array(latencyBuckets.length + 1);
  latencySum = 0;
  streamsOpen = 0;

  constructor(method: string, protocol: Protocol) {
    this.method = method;
    this.protocol = protocol;
  }

  /** A unary request was answered with gRPC status `code`; `startedMs` is what `performance.now()` said at its start. */
  answered(code: number, startedMs: number): void {
    this.byCode[code] = (this.byCode[code] ?? 0) + 1;
    const seconds = (performance.now() - startedMs) / 1000;
    this.latencySum += seconds;
    let bucket = 0;
    while (bucket < latencyBuckets.length && seconds > (latencyBuckets[bucket] ?? 0)) bucket++;
    this.byLatency[bucket] = (this.byLatency[bucket] ?? 0) + 1;
  }

  streamOpened(): void {
    this.streamsOpen++;
  }

  /** A stream that was opened ended with gRPC status `code`; 1 when the client left. */
  streamClosed(code: number): void {
    this.streamsOpen--;
    this.byCode[code] = (this.byCode[code] ?? 0) + 1;
  }

  /** A stream was refused before it opened. */
  streamRefused(code: number): void {
    this.byCode[code] = (this.byCode[code] ?? 0) + 1;
  }
}

/** Looks up the counters of a method and protocol; done once per method at start, not per request. */
export interface RequestMetrics {
  counters(method: Method, protocol: Protocol): RequestCounters;
}

/** What the metrics library reads from a histogram. */
interface HistogramReading {
  readonly name: string;
  readonly help: string;
  readonly type: "histogram";
  readonly aggregator: "sum";
  readonly values: DurationValue[];
}

/** Labels that several samples have in common may be kept apart; when metrics of several processes are added up, must. */
interface DurationValue extends MetricValueWithName<"method" | "protocol"> {
  readonly sharedLabels: Record<string, never>;
}

const durations = {
  name: "marketd_request_duration_seconds",
  help: "Time to answer unary requests, from headers received to answer handed to the socket.",
};

class RequestDurations extends Histogram<"method" | "protocol"> {
  readonly #counters: readonly RequestCounters[];

  constructor(counters: readonly RequestCounters[]) {
    super({ ...durations, labelNames: ["method", "protocol"], buckets: latencyBuckets, registers: [] });
    this.#counters = counters;
  }

  /** Where the library gets the values from, in place of its own table. */
  async getForPromString(): Promise<HistogramReading> {
    return { ...durations, type: "histogram", aggregator: "sum", values: this.#counters.flatMap(durationValues) };
  }
}

function durationValues(counters: RequestCounters): DurationValue[] {
  const { method, protocol } = counters;
  const sharedLabels = {};
  let count = 0;
  const values = Array.from(counters.byLatency, (inBucket, i) => {
    count += inBucket;
    const labels = { le: latencyBuckets[i] ?? "+Inf", method, protocol };
    return { value: count, labels, sharedLabels, metricName: `${durations.name}_bucket` };
  });
  if (count === 0) return [];
  const labels = { method, protocol };
  return [
    ...values,
    { value: counters.latencySum, labels, sharedLabels, metricName: `${durations.name}_sum` },
    { value: count, labels, sharedLabels, metricName: `${durations.name}_count` },
  ];
}

/** Counters for every method and protocol, registered with `metrics`. */
export function createRequestMetrics(metrics: Metrics, api: Api): RequestMetrics {
  const table = new Map<string, RequestCounters>();
  for (const method of api) {
    for (const protocol of protocols) {
      table.set(`${protocol} ${method.desc.name}`, new RequestCounters(method.desc.name, protocol));
    }
  }
  const counters = [...table.values()];
  const requests = new Counter({
    name: "marketd_requests_total",
    help: "Requests answered and streams ended, by gRPC status.",
    labelNames: ["method", "protocol", "code"],
    registers: [metrics],
    collect() {
      this.reset();
      for (const { method, protocol, byCode } of counters) {
        byCode.forEach((count, code) => {
          if (count > 0) this.inc({ method, protocol, code: codeNames[code] ?? String(code) }, count);
        });
      }
    },
  });
  const streams = new Gauge({
    name: "marketd_streams_open",
    help: "Streams that are open now.",
    labelNames: ["method", "protocol"],
    registers: [metrics],
    collect() {
      for (const { method, protocol, streamsOpen } of counters) {
        if (streamsOpen > 0 || api.some((m) => m.kind === "server_streaming" && m.desc.name === method)) {
          this.set({ method, protocol }, streamsOpen);
        }
      }
    },
  });
  void requests;
  void streams;
  metrics.registerMetric(new RequestDurations(counters));
  return {
    counters(method, protocol) {
      const found = table.get(`${protocol} ${method.desc.name}`);
      if (found === undefined) throw new Error(`no counters for ${method.desc.name} over ${protocol}`);
      return found;
    },
  };
}
