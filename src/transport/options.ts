import type { Api } from "../domain/service.js";
import type { Log } from "../telemetry/log.js";
import type { MetricsText } from "../telemetry/metrics.js";
import type { CommonHeaders } from "./common-headers.js";
import type { ClientAddresses } from "./connections/client-addresses.js";
import type { Routes } from "./http/routes.js";
import type { RequestMetrics } from "./request-metrics.js";

/** Whether the process accepts requests. */
export type Readiness = "ready" | "loading" | "draining";

/** What the handlers of every protocol share. */
export interface HandlerOptions {
  /** Guarded by {@link StreamGuard}: streams are counted, limited, watched and drained in every protocol. */
  readonly api: Api;
  readonly routes: Routes;
  readonly log: Log;
  readonly limits: TransportLimits;
  readonly requests: RequestMetrics;
  readonly clients: ClientAddresses;
  readonly common: CommonHeaders;
  readonly readiness: () => Readiness;
  /** Undefined: `/metrics` is not served. */
  readonly metricsText: MetricsText | undefined;
  /** What pages ask again and again: its path, and a small object. Undefined: it is not served. */
  readonly status: { readonly path: string; readonly read: () => object } | undefined;
}

/** Every limit of the port, per process, with its default. A name without a unit is a count. */
export const defaultTransportLimits = {
  /** Open connections; beyond it 503, or GOAWAY over HTTP/2. */
  connectionsMax: 20_000,
  /**
   * Open connections of one client address; beyond it 429, or GOAWAY over HTTP/2. 0: no limit. Default: half of
   * `connectionsMax`, so that one address never takes all of them.
   */
  connectionsPerAddressMax: 10_000,
  /** Open streams of all protocols; beyond it UNAVAILABLE. */
  streamsMax: 20_000,
  /**
   * Open streams of one client address; beyond it RESOURCE_EXHAUSTED. 0: no limit. An IPv6 client is its /64 network.
   */
  streamsPerAddressMax: 1_000,
  /** A stream whose reader takes nothing for this long is ended. */
  stalledReaderMs: 300_000,
  /** Request line and header fields together; beyond it 431. Over HTTP/2, requests of twice the size are reset. */
  headerBytesMax: 65_536,
  /**
   * Header fields of a request; beyond it 431. Over HTTP/2, requests with twice as many are reset. Node ignores the
   * fields beyond its own limit, among which may be what a proxy added.
   */
  headerFieldsMax: 1_000,
  /** Path and query; beyond it 414. */
  urlLengthMax: 32_768,
  /**
   * A request message of gRPC, gRPC-Web or Connect, both compressed and decompressed. The longest lists of a filter
   * need half of the default. JSON of that size takes up to 40 ms to decode, which blocks the process.
   */
  requestBodyBytesMax: 262_144,
  /** Requests of one stream of requests; beyond it, like beyond the next, RESOURCE_EXHAUSTED. */
  streamedRequestsMax: 1_000,
  /** A message of a stream of requests, both compressed and decompressed. Questions about definitions are short. */
  streamedRequestBytesMax: 65_536,
  /** How long a stream of requests may be silent when all of them have their response. */
  requestStreamIdleMs: 30_000,
  /** From the first byte of a request, or from connecting, to the end of its headers. */
  headersTimeoutMs: 10_000,
  /** From the first byte of a request to its last. */
  requestReceiveTimeoutMs: 30_000,
  /** How long a connection may idle between requests. */
  keepAliveTimeoutMs: 65_000,
  /**
   * Requests of one HTTP/1.1 connection that may wait for the response before them. They are answered in order, and
   * nothing is read meanwhile. Only a single packet can hold more, and then the connection ends.
   */
  unansweredRequestsMax: 64,
  /** How long a closing connection is still read, so that its last bytes arrive; then it is closed at once. */
  lingerMs: 1_000,
  /**
   * While draining, a connection ends with its next response, or after this time without requests, counting the time
   * before the drain. Over HTTP/1.1, a request that crosses the end of its connection is lost. Clients with shorter
   * intervals learn of the end from a response; with longer intervals, a crossing is unlikely.
   */
  drainIdleMs: 2_000,
  /** The time to answer a unary request, or to open a stream; then DEADLINE_EXCEEDED. */
  requestTimeoutMs: 30_000,
  /** Concurrent HTTP/2 streams of one connection. */
  http2StreamsPerConnectionMax: 1_000,
  /**
   * Open HTTP/2 streams of all connections, whatever they carry, and those of one client address; beyond it they are
   * refused, and safe to retry. A response that nobody reads keeps its stream open for {@link stalledReaderMs}. At least
   * twice `streamsMax` and `streamsPerAddressMax`; one address has no limit where its streams of messages have none.
   */
  http2StreamsMax: 40_000,
  http2StreamsPerAddressMax: 10_000,
  /**
   * Header fields of a client's open streams on one HTTP/2 connection together; beyond it, streams are reset. A field that
   * was sent before takes a byte on the wire, and some hundred in memory. Those that cost nothing are always allowed.
   */
  http2FieldsOpenMax: 64_000,
  /**
   * Memory of one HTTP/2 connection, in millions of bytes, mostly of unread stream data. Beyond it Node refuses new
   * streams. Node's default of 10 would refuse them beside a dozen slow depth streams.
   */
  http2SessionMegabytesMax: 128,
  /**
   * Calls that one HTTP/2 connection may cancel early (see `earlyCancelMs`), at once and per second from then on.
   * Beyond it the connection is closed, unless it is a trusted proxy's. A page may leave that many subscriptions at
   * once. nghttp2's own limits of 1,000 and 33 count cancellations of any age, and only send GOAWAY.
   */
  http2CancelBurstMax: 200,
  http2CancelsPerSecondMax: 30,
  /**
   * Calls that one client address may cancel early, at once and per second from then on, over all connections. Beyond
   * it its connections are closed and refused, for 5 s at most. Ten times a connection's limit, because many clients
   * may share an address.
   */
  cancelledCallBurstMax: 2_000,
  cancelledCallsPerSecondMax: 200,
  /** PING and SETTINGS frames of an HTTP/2 connection, at once and per second. Go's gRPC pings once per round trip. */
  http2ControlFramesPerSecondMax: 10_000,
  /**
   * Bytes per second that an HTTP/2 connection may receive beyond its requests and a quarter of what it was sent:
   * window updates, priorities and unknown frames.
   */
  http2OverheadBytesPerSecondMax: 524_288,
  /** Interval of pings to HTTP/2 and WebSocket peers. HTTP/2 peers are also pinged when they become silent. */
  peerPingIntervalMs: 20_000,
  /**
   * A peer that answers no ping for this long is dead. Minutes, because a peer that stopped reading cannot answer
   * pings.
   */
  peerSilenceMaxMs: 300_000,
  /** When the kernel starts to probe a silent TCP peer. */
  tcpKeepAliveMs: 30_000,
  /** Size of a message from a WebSocket client. Its content is ignored. */
  webSocketMessageBytesMax: 4_096,
  /** Fragments of a message from a WebSocket client. */
  webSocketFragmentsMax: 100,
  /** Bytes a WebSocket client may send between two pings. Pings and empty fragments cost as much as messages. */
  webSocketBytesPerPingMax: 409_600,
  /** How long a peer may take to read the end of a stream that failed, before it is cut off. */
  breakOffMs: 5_000,
};

/** Limits of a port. */
export type TransportLimits = Readonly<typeof defaultTransportLimits>;

/** The defaults with some limits changed. */
export function transportLimits(changed: Partial<TransportLimits> = {}): TransportLimits {
  const limits = { ...defaultTransportLimits, ...changed };
  const connectionsPerAddressMax = changed.connectionsPerAddressMax ?? Math.ceil(limits.connectionsMax / 2);
  return { ...limits, connectionsPerAddressMax };
}
