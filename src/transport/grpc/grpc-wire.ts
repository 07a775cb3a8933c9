import type { ServerHttp2Stream } from "node:http2";
import type { Answer } from "../../domain/answer.js";
import type { Failure } from "../../domain/failure.js";
import { countAnswer, endWithBody } from "../connections/unread-answers.js";
import type { AnswerHeaders } from "./answer-headers.js";
import { breakOffCode } from "./break-off-code.js";
import type { CallError, CallWire } from "./call-wire.js";
import { binaryEnvelope } from "./envelope.js";
import { errorTrailers, okTrailers } from "./grpc-status.js";

const withTrailers = Object.freeze({ waitForTrailers: true, sendDate: false });
const withoutBody = Object.freeze({ endStream: true, sendDate: false });

/** A gRPC response on the HTTP/2 stream itself. */
export class GrpcWire implements CallWire {
  readonly form = binaryEnvelope;
  readonly #stream: ServerHttp2Stream;
  readonly #headers: AnswerHeaders;

  constructor(stream: ServerHttp2Stream, headers: AnswerHeaders) {
    this.#stream = stream;
    this.#headers = headers;
  }

  answer(answer: Answer): void {
    const frame = answer.as(binaryEnvelope);
    const stream = this.#stream;
    if (stream.destroyed || stream.closed) return;
    countAnswer(stream, frame.length);
    const { metadata } = answer;
    if (metadata === undefined) {
      stream.on("wantTrailers", sendOkTrailers);
      stream.respond(this.#headers.current(), withTrailers);
    } else {
      const trailers = { ...Object.fromEntries(metadata.trailers), ...okTrailers };
      stream.on("wantTrailers", () => stream.sendTrailers(trailers));
      this.start(metadata.headers);
    }
    endWithBody(stream, stream, frame);
  }

  start(headers: ReadonlyMap<string, string>): void {
    if (this.#stream.destroyed || this.#stream.closed) return;
    this.#stream.respond({ ...this.#headers.current(), ...Object.fromEntries(headers) }, withTrailers);
  }

  write(frames: Uint8Array): boolean {
    return this.#stream.write(frames);
  }

  finish(error: CallError | undefined, trailers: ReadonlyMap<string, string>): void {
    const stream = this.#stream;
    if (stream.destroyed || stream.closed) return;
    const own = Object.fromEntries(error?.metadata?.trailers ?? trailers);
    // An error alone is a single block of fields; headers of its own have to go ahead of it to be told apart.
    if (error?.metadata !== undefined && error.metadata.headers.size > 0 && !stream.headersSent) {
      this.start(error.metadata.headers);
    }
    if (error !== undefined && !stream.headersSent) {
      stream.respond({ ...this.#headers.current(), ...own, ...errorTrailers(error) }, withoutBody);
      return;
    }
    const last = { ...own, ...(error === undefined ? okTrailers : errorTrailers(error)) };
    stream.on("wantTrailers", () => stream.sendTrailers(last));
    stream.end();
  }

  breakOff(failure: Failure): void {
    this.#stream.close(breakOffCode(failure));
  }
}

function sendOkTrailers(this: ServerHttp2Stream): void {
  this.sendTrailers(okTrailers);
}
