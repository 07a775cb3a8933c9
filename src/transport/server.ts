import type { Socket } from "node:net";
import { setTimeout } from "node:timers/promises";
import { Health } from "../../gen/grpc/health/v1/health_pb.js";
import type { Network } from "../domain/client-address.js";
import type { Api } from "../domain/service.js";
import { clientFailure } from "../encoding/status.js";
import type { Log } from "../telemetry/log.js";
import { addCounter, type Metrics, type MetricsText } from "../telemetry/metrics.js";
import { CommonHeaders, DataHeaders, type DataSource } from "./common-headers.js";
import { ClientAddresses } from "./connections/client-addresses.js";
import type { Exchange } from "./connections/exchange.js";
import { OnePort } from "./connections/one-port.js";
import { allowedMethods } from "./errors.js";
import { RestHandler } from "./http/rest-handler.js";
import { Routes, splitTarget } from "./http/routes.js";
import { type StaticFile, StaticFiles } from "./http/static-files.js";
import { WebSocketHandler } from "./http/web-socket-handler.js";
import { type HandlerOptions, type Readiness, type TransportLimits, transportLimits } from "./options.js";
import { RpcHandler } from "./protocols/rpc-handler.js";
import { createRequestMetrics } from "./request-metrics.js";
import { healthMethods } from "./services/health.js";
import { reflectionMethods } from "./services/reflection.js";
import { StreamGuard } from "./stream-guard.js";

/** Options of {@link startServer}. */
export interface ServerOptions extends DataSource {
  readonly api: Api;
  /** PEM texts; with them the port uses TLS, with ALPN h2 and http/1.1. */
  readonly tls?: { readonly certificate: string; readonly key: string };
  /** A prefix (`/prefix`) of the HTTP API's paths. Health and metrics stay at the root. */
  readonly basePath?: string;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The content of `/metrics`, if it is more than this process's own. Default: `metrics`. */
  readonly metricsText?: MetricsText;
  /** False: this port does not serve `/metrics`. Default: true. */
  readonly servesMetrics?: boolean;
  readonly readiness: () => Readiness;
  /** What `/status` behind the base path shows beside the readiness, as JSON. Default: there is no such path. */
  readonly status?: () => object;
  /** Limits that differ from the defaults. */
  readonly limits?: Partial<TransportLimits>;
  /** Origins that browsers may call from. Default: all, because the data is public and read-only. */
  readonly corsOrigins?: readonly string[];
  /** Files to serve beside the API, by path behind the base path; `/` is the page itself. */
  readonly files?: ReadonlyMap<string, StaticFile>;
  /** Proxies whose `X-Forwarded-For` is trusted. Default: none. */
  readonly trustedProxies?: readonly Network[];
}

/** Serves the connections of a port. */
export interface RunningServer {
  /** Serves a connection that another process accepted, and read nothing of. */
  accept(socket: Socket): void;
  /** Finishes requests, ends streams with UNAVAILABLE, and closes the rest after `ms`. */
  drain(ms: number): Promise<void>;
  /** Closes everything at once. */
  close(): Promise<void>;
}

/** Serves the API to connections that another process accepts. @throws Error if routes conflict */
export function startServer(options: ServerOptions): RunningServer {
  const { log, metrics, readiness, tls, basePath = "" } = options;
  const limits = transportLimits(options.limits);
  const services = new Set(options.api.map((method) => method.desc.parent));
  const health = healthMethods(new Set([...services].map((service) => service.typeName)), readiness);
  const reflection = reflectionMethods([...services, Health]);
  const guard = new StreamGuard([...options.api, ...health, ...reflection], limits, log);
  const stalledHelp = "Streams that were ended because their reader took nothing for too long.";
  addCounter(metrics, "marketd_streams_stalled_total", stalledHelp, () => guard.stalled);
  const clients = new ClientAddresses(options.trustedProxies);
  const common = new CommonHeaders(options.corsOrigins, new DataHeaders(options));
  const handlers: HandlerOptions = {
    ...{ api: guard.api, log, limits, readiness, clients, common },
    routes: new Routes(guard.api, basePath),
    requests: createRequestMetrics(metrics, guard.api),
    metricsText: options.servesMetrics === false ? undefined : (options.metricsText ?? metrics),
    status: options.status && { path: `${basePath}/status`, read: options.status },
  };
  const dispatch = dispatcher(handlers, basePath, options.files);
  const webSockets = new WebSocketHandler(handlers);
  const port = new OnePort({
    ...{ tls, limits, common, clients, log, metrics },
    handlers: {
      request: dispatch,
      upgrade: (request, socket, head) => webSockets.handle(request, socket, head),
    },
  });
  return {
    accept: (socket) => port.accept(socket),
    drain: (ms) => drain(port, guard, ms).finally(() => webSockets.stop()),
    close: () => drain(port, guard, 0).finally(() => webSockets.stop()),
  };
}

/** How long peers may read the end of streams that the end of a drain aborts. */
const lastWordsMs = 200;

async function drain(port: OnePort, guard: StreamGuard, ms: number): Promise<void> {
  const drained = port.drain();
  if (ms > 0) {
    guard.drain();
    await Promise.race([drained, setTimeout(ms, undefined, { ref: false })]);
  }
  guard.endAll();
  if (ms > 0) await Promise.race([drained, setTimeout(lastWordsMs, undefined, { ref: false })]);
  port.cut();
  await drained;
}

/** Passes each request to the handler that serves it. Remembered URLs are tried first. */
function dispatcher(options: HandlerOptions, basePath: string, pages: ServerOptions["files"]) {
  const rest = new RestHandler(options);
  const rpc = new RpcHandler(options);
  const files = new StaticFiles(pages, options);
  return (exchange: Exchange): void => {
    try {
      if (exchange.isRead && rest.takeRemembered(exchange)) return;
      const { path, query } = splitTarget(exchange.url);
      const inBase = path.startsWith(`${basePath}/`);
      const inner = inBase ? path.slice(basePath.length) : path;
      if (exchange.method === "OPTIONS") sendPreflight(exchange, rpc.allowed(inner) ?? allowedMethods);
      else if (rpc.matches(exchange, inner)) rpc.handle(exchange, inner, query);
      else if (!inBase || !files.serve(exchange, inner)) rest.handle(exchange, path, query);
    } catch (thrown) {
      exchange.sendError(clientFailure(thrown, options.log));
    }
  };
}

/** How long a browser may cache a preflight, in seconds; browsers cap it at two hours or less. */
const preflightMaxAgeSeconds = 7200;

function sendPreflight(exchange: Exchange, allow: string): void {
  exchange.send(204, {
    allow,
    "access-control-allow-methods": allow,
    "access-control-max-age": preflightMaxAgeSeconds,
    "access-control-allow-headers": exchange.headers["access-control-request-headers"],
  });
}
