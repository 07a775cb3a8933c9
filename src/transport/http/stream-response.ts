import type { Socket } from "node:net";
import type { Writable } from "node:stream";
import type { Failure } from "../../domain/failure.js";
import type { HeaderFields } from "../common-headers.js";
import type { FrameSink } from "../grpc/call-wire.js";
import { type ContentCoding, compressor } from "./content-coding.js";
import { breakOff, type HttpResponse } from "./http-message.js";

/** What a stream is written with. */
export interface StreamResponseOptions {
  readonly response: HttpResponse & Writable;
  /** All headers but those of the coding. */
  readonly headers: HeaderFields;
  readonly coding: ContentCoding | undefined;
  /** Where the frames go past the response, because they are finished chunks: one write each, in place of four. */
  readonly chunks: Socket | undefined;
  /** Whether the stream's own trailers belong to this body: to a file, not to its envelope. */
  readonly ownTrailers: boolean;
  /** Answers a failure before anything was sent. */
  refuse(failure: Failure): void;
  /** Bytes that tell of a failure inside the body; undefined: the body is broken off instead. */
  errorBytes(failure: Failure): Uint8Array | undefined;
  /** The response can take more. */
  drained(): void;
}

/** A response body of unknown length, optionally compressed. */
export class StreamResponse implements FrameSink {
  readonly #options: StreamResponseOptions;
  #output: { write(chunk: Uint8Array): boolean; end(): unknown };
  #started = false;

  constructor(options: StreamResponseOptions) {
    this.#options = options;
    this.#output = options.response;
  }

  start(): void {
    const { response, headers, coding, chunks, drained } = this.#options;
    this.#started = true;
    response.writeHead(200, {
      ...headers,
      ...(coding === undefined ? {} : { "content-encoding": coding }),
    });
    response.flushHeaders?.();
    if (chunks !== undefined) {
      chunks.on("drain", drained);
      response.once("close", () => chunks.off("drain", drained));
      return;
    }
    if (coding === undefined) {
      response.on("drain", drained);
      return;
    }
    const packer = compressor(coding);
    packer.on("drain", drained);
    packer.on("error", () => this.breakOff());
    response.once("close", () => packer.destroy());
    packer.pipe(response);
    this.#output = packer;
  }

  write(frames: Uint8Array): boolean {
    const { chunks } = this.#options;
    if (chunks !== undefined) return !chunks.writable || chunks.write(frames);
    return frames.length === 0 || this.#output.write(frames);
  }

  finish(failure: Failure | undefined, trailers: ReadonlyMap<string, string>): void {
    if (failure === undefined) {
      if (this.#options.ownTrailers && trailers.size > 0) {
        this.#options.response.addTrailers(Object.fromEntries(trailers));
      }
      this.#output.end();
      return;
    }
    if (!this.#started) {
      this.#options.refuse(failure);
      return;
    }
    const bytes = this.#options.errorBytes(failure);
    if (bytes === undefined) {
      this.breakOff();
      return;
    }
    this.#output.write(bytes);
    this.#output.end();
  }

  breakOff(): void {
    breakOff(this.#options.response);
  }
}
