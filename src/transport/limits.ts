/** Everything on the port that has a bound. Per process; counts unless the name says its unit. */
export interface TransportLimits {
  /** Open connections; above it 503, or GOAWAY over HTTP/2. */
  readonly connectionsMax: number;
  /**
   * Open connections of one client address; above it 429, or GOAWAY over HTTP/2. 0: no bound. Half of `connectionsMax`
   * unless it is given, so that one address never takes all of them, and many clients behind one address are served.
   */
  readonly connectionsPerAddressMax: number;
  /** Open streams, all protocols together; above it UNAVAILABLE. */
  readonly streamsMax: number;
  /** Open streams of one client address; above it RESOURCE_EXHAUSTED. 0: no bound. An IPv6 client is its /64 network. */
  readonly streamsPerAddressMax: number;
  /** A stream whose reader has not taken what was sent to it for this long is ended. */
  readonly stalledReaderMs: number;
  /** Request line and header fields together; above it 431. */
  readonly headerBytesMax: number;
  /** Path and query; above it 414. */
  readonly urlLengthMax: number;
  /**
   * A request message of gRPC, gRPC-Web or Connect, as it is sent and decompressed. The longest lists that a filter takes
   * need half of the default; JSON of that size takes up to 40 ms to read, during which nothing else happens.
   */
  readonly requestBodyBytesMax: number;
  /** From the first byte of a request, or from connecting, to the end of its headers. */
  readonly headersTimeoutMs: number;
  /** From the first byte of a request to its last. */
  readonly requestReceiveTimeoutMs: number;
  /** How long a connection may idle between requests. */
  readonly keepAliveTimeoutMs: number;
  /**
   * Requests of one HTTP/1.1 connection that may wait for the response to the one before them. They are answered one after
   * the other, and no more is read meanwhile; only a single packet can hold more, and ends the connection.
   */
  readonly unansweredRequestsMax: number;
  /** How long a connection that the server ends is still read, so that its last bytes arrive; then it is cut. */
  readonly lingerMs: number;
  /**
   * While the server drains, a connection is told to end with its next request, or when it had none for this long, the
   * time before the drain included. Over HTTP/1.1 a request that crosses the end of its connection is lost. A client that
   * asks more often than this is told with a response; of one that asks more rarely, hardly ever a request crosses.
   */
  readonly drainIdleMs: number;
  /** How long the server works on a unary response, or on opening a stream; then DEADLINE_EXCEEDED. */
  readonly requestTimeoutMs: number;
  /** Concurrent HTTP/2 streams of one connection. */
  readonly http2StreamsPerConnectionMax: number;
  /**
   * What one HTTP/2 connection may hold in memory, in units of a million bytes: mostly what its streams have not read
   * yet. Above it Node refuses its new streams (its own default of 10 would, beside a dozen slow depth streams).
   */
  readonly http2SessionMegabytesMax: number;
  /**
   * Calls that one HTTP/2 connection may cancel early (see `earlyCancelMs`) at once, and a second from then on; above it
   * the connection is cut. A page with as many subscriptions may leave them all at once. Not for trusted proxies. Far
   * below nghttp2's own 1,000 and 33 of any age, beyond which it sends GOAWAY, and lets open streams go on.
   */
  readonly http2CancelBurstMax: number;
  readonly http2CancelsPerSecondMax: number;
  /**
   * Calls that one client address may cancel early at once, and a second from then on, over all connections and HTTP
   * versions; above it its connections are cut and refused, for 5 s at most. Ten connections' worth, because many
   * clients may share an address.
   */
  readonly cancelledCallBurstMax: number;
  readonly cancelledCallsPerSecondMax: number;
  /** PING and SETTINGS frames of an HTTP/2 connection, at once and a second. Go's gRPC pings once a round trip. */
  readonly http2ControlFramesPerSecondMax: number;
  /**
   * Bytes a second that an HTTP/2 connection may receive beyond what its requests may take and a quarter of what it was
   * sent: window updates, priorities and frames of unknown types.
   */
  readonly http2OverheadBytesPerSecondMax: number;
  /** How often an HTTP/2 or WebSocket peer is pinged; an HTTP/2 peer also once it has become silent. */
  readonly peerPingIntervalMs: number;
  /** A peer that answered no ping for this long is dead. Minutes, because one that stopped reading responses none. */
  readonly peerSilenceMaxMs: number;
  /** When the kernel begins to probe a silent TCP peer. */
  readonly tcpKeepAliveMs: number;
  /** A message from a WebSocket client; they are ignored, so small ones will do. */
  readonly webSocketMessageBytesMax: number;
  /** Messages a WebSocket client may send between two pings. */
  readonly webSocketMessagesPerPingMax: number;
  /** How long a peer may take to read the end of a broken-off stream before its connection is cut. */
  readonly breakOffMs: number;
}

/** What holds unless an operator says otherwise. */
export const defaultTransportLimits: TransportLimits = {
  connectionsMax: 20_000,
  connectionsPerAddressMax: 10_000,
  streamsMax: 20_000,
  streamsPerAddressMax: 1_000,
  stalledReaderMs: 300_000,
  headerBytesMax: 65_536,
  urlLengthMax: 32_768,
  requestBodyBytesMax: 262_144,
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
