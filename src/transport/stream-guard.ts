import { HttpBodySchema } from "../../gen/google/api/httpbody_pb.js";
import { quotaKey } from "../domain/client-address.js";
import { ClientQuota, QuotaShare } from "../domain/client-quota.js";
import type { EncodedResponse } from "../domain/encoded-response.js";
import { Failure, unavailable } from "../domain/failure.js";
import {
  type Api,
  type BidiMethod,
  type Call,
  ForwardingStream,
  type Method,
  type ResponseStream,
  type StreamMethod,
} from "../domain/service.js";
import type { Log } from "../telemetry/log.js";
import type { TransportLimits } from "./options.js";

/** Retry delay for a client whose stream was refused. */
const streamRetryMs = 5_000;

/** Retry delay for streams that a shutdown ends; the client reaches another process. */
const drainRetryMs = 1_000;

/** Interval between checks for stalled readers, at most. */
export const sweepIntervalMs = 10_000;

/** Finite (a file download) or endless (a subscription). */
type Kind = "file" | "subscription";

/** Limits, watches and ends streams in one place between the protocols and the API. */
export class StreamGuard {
  /** The API with guarded streams; unary methods are unchanged. */
  readonly api: Api;
  /** Streams that were ended because their reader took nothing for too long. */
  stalled = 0;
  readonly #limits: TransportLimits;
  readonly #log: Log;
  readonly #open = new Set<GuardedStream>();
  readonly #admitted: ClientQuota;
  readonly #sweep: NodeJS.Timeout;
  /** What is neither opened nor left open. */
  readonly #ending = new Set<Kind>();

  constructor(api: Api, limits: TransportLimits, log: Log) {
    this.#limits = limits;
    this.#log = log;
    this.#admitted = countStreams(limits);
    this.api = api.map((method) => (method.kind === "unary" ? method : this.#guard(method)));
    this.#sweep = setInterval(() => this.#endStalled(), Math.min(sweepIntervalMs, limits.stalledReaderMs));
    this.#sweep.unref();
  }

  /** Refuses new subscriptions and ends open ones with UNAVAILABLE. Files may start and finish. */
  drain(): void {
    this.#end("subscription");
  }

  /** Ends every stream with UNAVAILABLE. */
  endAll(): void {
    clearInterval(this.#sweep);
    this.#end("subscription");
    this.#end("file");
  }

  #end(kind: Kind): void {
    this.#ending.add(kind);
    for (const stream of this.#open) if (stream.kind === kind) stream.fail(drainFailure());
  }

  #guard(method: StreamMethod | BidiMethod): Method {
    const kind: Kind = method.desc.output.typeName === HttpBodySchema.typeName ? "file" : "subscription";
    // Either kind of method is given what it takes.
    const open = (input: never, call: Call) => this.#admit(call, kind, () => method.open(input, call));
    return { ...method, open };
  }

  #admit(
    { clientAddress }: Call,
    kind: Kind,
    open: () => ResponseStream | Promise<ResponseStream>,
  ): ResponseStream | Promise<ResponseStream> {
    if (this.#ending.has(kind)) throw drainFailure();
    const share = new QuotaShare(this.#admitted, quotaKey(clientAddress));
    share.add(1);
    const watched = (inner: ResponseStream): ResponseStream => {
      const stream: GuardedStream = new GuardedStream(inner, kind, clientAddress, () => {
        this.#open.delete(stream);
        share.remove();
      });
      this.#open.add(stream);
      // The drain began while it was being opened.
      if (this.#ending.has(kind)) stream.fail(drainFailure());
      return stream;
    };
    try {
      const opened = open();
      if (!(opened instanceof Promise)) return watched(opened);
      return opened.then(watched, (thrown: unknown) => {
        share.remove();
        throw thrown;
      });
    } catch (thrown) {
      share.remove();
      throw thrown;
    }
  }

  #endStalled(): void {
    const { stalledReaderMs } = this.#limits;
    const before = performance.now() - stalledReaderMs;
    const ended = new Map<string, number>();
    for (const stream of this.#open) {
      if (stream.ended || !stream.stalledSince(before)) continue;
      this.stalled++;
      ended.set(stream.clientAddress, (ended.get(stream.clientAddress) ?? 0) + 1);
      const message = `nothing of this stream was read for ${stalledReaderMs} ms; open it again`;
      stream.fail(new Failure("resource_exhausted", message, { reason: "READER_STALLED", retryAfterMs: 0 }));
    }
    for (const [client, streams] of ended) {
      this.#log.warn({ client, streams, stalledReaderMs }, "ended streams whose reader takes nothing");
    }
  }
}

function countStreams({ streamsMax, streamsPerAddressMax }: TransportLimits): ClientQuota {
  return new ClientQuota({
    ofClientMax: streamsPerAddressMax === 0 ? Number.POSITIVE_INFINITY : streamsPerAddressMax,
    inAllMax: streamsMax,
    ofClient: (streams) => {
      const message = `this client has ${streams} streams open, as many as one address may; close some`;
      const parts = { reason: "TOO_MANY_STREAMS_OF_CLIENT", retryAfterMs: streamRetryMs };
      return new Failure("resource_exhausted", message, parts);
    },
    inAll: () => unavailable("this server serves as many streams as it can", "TOO_MANY_STREAMS", streamRetryMs),
  });
}

/** Why nothing more is served while the process shuts down. */
export function drainFailure(): Failure {
  return unavailable("this server is shutting down; connect again", "DRAINING", drainRetryMs);
}

class GuardedStream extends ForwardingStream {
  #listener: () => void = () => {};
  #failure: Failure | undefined;
  /**
   * When the reader was last given messages and has not returned since, in `performance.now()` time. Undefined: it
   * waits for more.
   */
  #givenAtMs: number | undefined = performance.now();

  constructor(
    inner: ResponseStream,
    readonly kind: Kind,
    readonly clientAddress: string,
    private readonly released: () => void,
  ) {
    super(inner);
  }

  override get ended(): boolean {
    return this.#failure !== undefined || this.inner.ended;
  }

  override get failure(): Failure | undefined {
    return this.#failure ?? this.inner.failure;
  }

  override take(): readonly EncodedResponse[] {
    if (this.#failure !== undefined) return [];
    const responses = this.inner.take();
    this.#givenAtMs = responses.length === 0 ? undefined : performance.now();
    return responses;
  }

  override onReady(listener: () => void): void {
    this.#listener = listener;
    this.inner.onReady(listener);
  }

  override close(): void {
    this.inner.close();
    this.released();
  }

  /** Ends the stream from outside. */
  fail(failure: Failure): void {
    if (this.ended) return;
    this.#failure = failure;
    // A stream that is ended must not count as stalled again.
    this.#givenAtMs = undefined;
    this.inner.close();
    this.#listener();
  }

  stalledSince(ms: number): boolean {
    return this.#givenAtMs !== undefined && this.#givenAtMs < ms;
  }
}
