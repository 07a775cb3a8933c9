import type { Api } from "../domain/service.js";
import type { Log } from "../telemetry/log.js";
import type { Metrics } from "../telemetry/metrics.js";
import type { Readiness } from "./lane.js";
import type { TransportLimits } from "./limits.js";

/** Where to listen. Port 0 takes a free one. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** What {@link startServer} needs. */
export interface ServerOptions {
  readonly api: Api;
  readonly listen: ListenAddress;
  /** PEM texts; with them the port speaks TLS, with ALPN h2 and http/1.1. */
  readonly tls?: { readonly certificate: string; readonly key: string };
  /** `/prefix` before the paths of the HTTP API. Health and metrics stay at the root. */
  readonly basePath?: string;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly readiness: () => Readiness;
  /** Bounds that differ from the defaults. */
  readonly limits?: Partial<TransportLimits>;
  /** Origins that browsers may call from; none given: every one (the data is public, and nothing can be changed). */
  readonly corsOrigins?: readonly string[];
  /** How many seconds old the newest data is; sent as a header with every answer. */
  readonly staleness?: () => number | undefined;
  /** The short way for plain gRPC; default on. */
  readonly grpcLane?: boolean;
}

/** A port that is being served. */
export interface RunningServer {
  readonly address: ListenAddress;
  /** `http://host:port` or `https://host:port`, without base path. */
  readonly url: string;
  /** Takes no more connections, lets requests finish, ends streams with UNAVAILABLE, cuts what is left after `ms`. */
  drain(ms: number): Promise<void>;
  /** Cuts everything. */
  close(): Promise<void>;
}

/** Serves the API on one port. @throws Error when the routes conflict or the address is taken */
export function startServer(options: ServerOptions): Promise<RunningServer> {
  return Promise.reject(new Error(`nothing listens on ${options.listen.host}:${options.listen.port} yet`));
}
