import type { Api } from "../domain/service.js";
import type { Log } from "../telemetry/log.js";
import type { ClientAddresses } from "./connections/client-addresses.js";
import type { RequestMetrics } from "./request-metrics.js";

/** Whether the process accepts requests. */
export type Readiness = "ready" | "loading" | "draining";

/** Options of the handlers of every protocol. */
export interface HandlerOptions {
  /** Guarded by {@link StreamGuard}: streams are counted, limited, watched and drained in every protocol. */
  readonly api: Api;
  readonly log: Log;
  readonly limits: TransportLimits;
  readonly requests: RequestMetrics;
  readonly readiness: () => Readiness;
  readonly clients: ClientAddresses;
}

/** Every limit of the port, per process. A name without a unit is a count. */
export interface TransportLimits {
  /** Open connections; beyond it 503, or GOAWAY over HTTP/2. */
  readonly connectionsMax: number;
  /**
   * Open connections of one client address; beyond it 429, or GOAWAY over HTTP/2. 0: no limit. Default: half of
   * `connectionsMax`, so that one address never takes all of them.
   */
  readonly connectionsPerAddressMax: number;
  /** Open streams of all protocols; beyond it UNAVAILABLE. */
  readonly streamsMax: number;
  /**
   * Open streams of one client address; beyond it RESOURCE_EXHAUSTED. 0: no limit. An IPv6 client is its /64 network.
   */
  readonly streamsPerAddressMax: number;
  /** A stream whose reader takes nothing for this long is ended. */
  readonly stalledReaderMs: number;
  /** Request line and header fields together; beyond it 431. Over HTTP/2, requests of twice the size are reset. */
  readonly headerBytesMax: number;
  /**
   * Header fields of a request; beyond it 431. Over HTTP/2, requests with twice as many are reset. Node ignores the
   * fields beyond its own limit, among which may be what a proxy added.
   */
  readonly headerFieldsMax: number;
  /** Path and query; beyond it 414. */
  readonly urlLengthMax: number;
  /**
   * A request message of gRPC, gRPC-Web or Connect, both compressed and decompressed. The longest lists of a filter
   * need half of the default. JSON of that size takes up to 40 ms to decode, which blocks the process.
   */
  readonly requestBodyBytesMax: number;
  /** Requests of one stream of requests; beyond it, like beyond the next two, RESOURCE_EXHAUSTED. */
  readonly streamedRequestsMax: number;
  /** A message of a stream of requests, both compressed and decompressed. Questions about definitions are short. */
  readonly streamedRequestBytesMax: number;
  /** Requests of one stream that wait for the responses before them to be read, in bytes. */
  readonly pendingRequestBytesMax: number;
  /** How long a stream of requests may be silent when all of them have their response. */
  readonly requestStreamIdleMs: number;
  /** From the first byte of a request, or from connecting, to the end of its headers. */
  readonly headersTimeoutMs: number;
  /** From the first byte of a request to its last. */
  readonly requestReceiveTimeoutMs: number;
  /** How long a connection may idle between requests. */
  readonly keepAliveTimeoutMs: number;
  /**
   * Requests of one HTTP/1.1 connection that may wait for the response before them. They are answered in order, and
   * nothing is read meanwhile. Only a single packet can hold more, and then the connection ends.
   */
  readonly unansweredRequestsMax: number;
  /** How long a closing connection is still read, so that its last bytes arrive; then it is closed at once. */
  readonly lingerMs: number;
  /**
   * While draining, a connection ends with its next response, or after this time without requests, counting the time
   * before the drain. Over HTTP/1.1, a request that crosses the end of its connection is lost. Clients with shorter
   * intervals learn of the end from a response; with longer intervals, a crossing is unlikely.
   */
  readonly drainIdleMs: number;
  /** The time to answer a unary request, or to open a stream; then DEADLINE_EXCEEDED. */
  readonly requestTimeoutMs: number;
  /** Concurrent HTTP/2 streams of one connection. */
  readonly http2StreamsPerConnectionMax: number;
  /**
   * Memory of one HTTP/2 connection, in millions of bytes, mostly of unread stream data. Beyond it Node refuses new
   * streams. Node's default of 10 would refuse them beside a dozen slow depth streams.
   */
  readonly http2SessionMegabytesMax: number;
  /**
   * Calls that one HTTP/2 connection may cancel early (see `earlyCancelMs`), at once and per second from then on.
   * Beyond it the connection is closed, unless it is a trusted proxy's. A page may leave that many subscriptions at
   * once. nghttp2's own limits of 1,000 and 33 count cancellations of any age, and only send GOAWAY.
   */
  readonly http2CancelBurstMax: number;
  readonly http2CancelsPerSecondMax: number;
  /**
   * Calls that one client address may cancel early, at once and per second from then on, over all connections. Beyond
   * it its connections are closed and refused, for 5 s at most. Ten times a connection's limit, because many clients
   * may share an address.
   */
  readonly cancelledCallBurstMax: number;
  readonly cancelledCallsPerSecondMax: number;
  /** PING and SETTINGS frames of an HTTP/2 connection, at once and per second. Go's gRPC pings once per round trip. */
  readonly http2ControlFramesPerSecondMax: number;
  /**
   * Bytes per second that an HTTP/2 connection may receive beyond its requests and a quarter of what it was sent:
   * window updates, priorities and unknown frames.
   */
  readonly http2OverheadBytesPerSecondMax: number;
  /** Interval of pings to HTTP/2 and WebSocket peers. HTTP/2 peers are also pinged when they become silent. */
  readonly peerPingIntervalMs: number;
  /**
   * A peer that answers no ping for this long is dead. Minutes, because a peer that stopped reading cannot answer
   * pings.
   */
  readonly peerSilenceMaxMs: number;
  /** When the kernel starts to probe a silent TCP peer. */
  readonly tcpKeepAliveMs: number;
  /** Size of a message from a WebSocket client. Its content is ignored. */
  readonly webSocketMessageBytesMax: number;
  /** Messages a WebSocket client may send between two pings. */
  readonly webSocketMessagesPerPingMax: number;
  /** How long a peer may take to read the end of an aborted stream before its connection is closed. */
  readonly breakOffMs: number;
}

/** The defaults. */
export const defaultTransportLimits: TransportLimits = {
  connectionsMax: 20_000,
  connectionsPerAddressMax: 10_000,
  streamsMax: 20_000,
  streamsPerAddressMax: 1_000,
  stalledReaderMs: 300_000,
  headerBytesMax: 65_536,
  headerFieldsMax: 1_000,
  urlLengthMax: 32_768,
  requestBodyBytesMax: 262_144,
  streamedRequestsMax: 1_000,
  streamedRequestBytesMax: 65_536,
  pendingRequestBytesMax: 1_048_576,
  requestStreamIdleMs: 30_000,
  headersTimeoutMs: 10_000,
  requestReceiveTimeoutMs: 30_000,
  keepAliveTimeoutMs: 65_000,
  unansweredRequestsMax: 64,
  lingerMs: 1_000,
  drainIdleMs: 2_000,
  requestTimeoutMs: 30_000,
  http2StreamsPerConnectionMax: 1_000,
  http2SessionMegabytesMax: 128,
  http2CancelBurstMax: 200,
  http2CancelsPerSecondMax: 30,
  cancelledCallBurstMax: 2_000,
  cancelledCallsPerSecondMax: 200,
  http2ControlFramesPerSecondMax: 10_000,
  http2OverheadBytesPerSecondMax: 524_288,
  peerPingIntervalMs: 20_000,
  peerSilenceMaxMs: 300_000,
  tcpKeepAliveMs: 30_000,
  webSocketMessageBytesMax: 4_096,
  webSocketMessagesPerPingMax: 100,
  breakOffMs: 5_000,
};

/** The defaults with some limits changed. */
export function transportLimits(changed: Partial<TransportLimits> = {}): TransportLimits {
  const limits = { ...defaultTransportLimits, ...changed };
  const connectionsPerAddressMax = changed.connectionsPerAddressMax ?? Math.ceil(limits.connectionsMax / 2);
  return { ...limits, connectionsPerAddressMax };
}
