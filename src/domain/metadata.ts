/**
 * The header fields of a request by their lower-case names. The values of a field that was sent more than once are
 * joined by `, `. Fields whose names begin with `:` are HTTP/2's own.
 */
export type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Fields that accompany a response or an error. Names are lower-case, values printable ASCII; join the values of a
 * repeated field by `, `. gRPC wants base64 in fields whose names end in `-bin`.
 */
export interface Metadata {
  /** Sent before the first message: HTTP headers, gRPC headers. */
  readonly headers: ReadonlyMap<string, string>;
  /** Sent after the last message: HTTP trailers, gRPC trailers, `trailer-` headers of a Connect unary response. */
  readonly trailers: ReadonlyMap<string, string>;
}
