/**
 * The header fields of a request by their lower-case names. Values of repeated fields are joined by `, `. Names that
 * begin with `:` are HTTP/2 pseudo-headers.
 */
export type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Header and trailer fields of a response or an error. Names are lower-case, values printable ASCII; join the values of
 * a repeated field by `, `. gRPC requires base64 in fields whose names end in `-bin`.
 */
export interface Metadata {
  /** Sent before the first message: HTTP headers, gRPC headers. */
  readonly headers: ReadonlyMap<string, string>;
  /** Sent after the last message: HTTP trailers, gRPC trailers, `trailer-` headers of a Connect unary response. */
  readonly trailers: ReadonlyMap<string, string>;
}
