/** The ways in which a browser can read the depth stream. */
export const browserClients = ["connect", "connect binary", "grpc-web", "event source", "web socket"] as const;

/** One of {@link browserClients}. */
export type BrowserClient = (typeof browserClients)[number];

/** A price level, in plain text. */
export interface ReportedLevel {
  readonly price: string;
  readonly volume: string;
  readonly numberOfOrders: string;
}

/** A market's book, as a client's updates made it. */
export interface ReportedBook {
  readonly marketId: string;
  readonly sequenceNumber: string;
  readonly buy: readonly ReportedLevel[];
  readonly sell: readonly ReportedLevel[];
}

/** What came through a client so far. */
export interface ClientReport {
  readonly messages: number;
  /** Empty: none. */
  readonly problem: string;
  readonly books: readonly ReportedBook[];
}
