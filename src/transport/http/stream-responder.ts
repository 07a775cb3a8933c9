import { isMessage } from "@bufbuild/protobuf";
import { HttpBodySchema } from "../../../gen/google/api/httpbody_pb.js";
import type { Answer, Form } from "../../domain/answer.js";
import type { Failure } from "../../domain/failure.js";
import type { AnswerStream, StreamMethod } from "../../domain/service.js";
import type { CommonHeaders, HeaderFields } from "../common-headers.js";
import { AnswerPump } from "../grpc/answer-pump.js";
import { clientLeft } from "../grpc/deadline.js";
import type { LaneOptions } from "../lane.js";
import { RequestCall } from "../request-call.js";
import type { RequestCells } from "../request-metrics.js";
import { grpcCode, toFailure } from "../status.js";
import { chooseCoding } from "./content-coding.js";
import { type Exchange, refuse } from "./exchange.js";
import { bodyData, chunkedForm } from "./forms.js";
import { canHaveTrailers, chunkSocket } from "./http-message.js";
import { openStream } from "./open-stream.js";
import { PeekedStream } from "./peeked-stream.js";
import type { BoundRequest } from "./query-parameters.js";
import { isHttpBody } from "./routes.js";
import { envelopeForm, preferredMediaType, type StreamForm, streamForm } from "./stream-form.js";
import { StreamResponse } from "./stream-response.js";

/** How an answer stream becomes a response body. */
interface BodyForm {
  readonly form: Form;
  readonly contentType: string;
  /** Worth compressing: a file, not a trickle. */
  readonly file: boolean;
  /** Undefined: a failure breaks the body off. */
  errorBytes(failure: Failure): Uint8Array | undefined;
}

/** What the responder needs. */
export interface StreamResponderOptions extends LaneOptions {
  readonly common: CommonHeaders;
}

/** Answers server-streaming methods: as lines, as server-sent events, or as the file that the pieces make up. */
export class StreamResponder {
  readonly #options: StreamResponderOptions;
  readonly #vary: string;

  /** `vary` is the value of that header on every stream. */
  constructor(options: StreamResponderOptions, vary: string) {
    this.#options = options;
    this.#vary = vary;
  }

  /** Opens the stream and answers with it; what fails before its first message is an ordinary error response. */
  respond(method: StreamMethod, bound: BoundRequest, exchange: Exchange): void {
    const { accept } = exchange.request.headers;
    const form = isHttpBody(method) ? envelopeForm(accept) : streamForm(accept, bound.alt);
    const cells = this.#options.requests.cells(method, form.protocol);
    const refused = (thrown: unknown): void => {
      cells.streamRefused(grpcCode(refuse(exchange, thrown, this.#options.log)));
    };
    const call = new RequestCall(this.#options.clients.ofRequest(exchange.request), exchange.request.headers);
    exchange.response.once("close", () => call.abort(clientLeft()));
    const begin = (stream: AnswerStream): void => {
      if (exchange.response.destroyed) stream.close();
      else if (isHttpBody(method)) this.#file(stream, form, bound, exchange, cells);
      else this.#pump(stream, { ...form, file: false }, exchange, cells);
    };
    openStream(method, bound.message, call, this.#options.limits.requestTimeoutMs, begin, refused);
  }

  /** A file goes out in its envelope at once, unless the client may want the file itself: its first piece says what it is. */
  #file(stream: AnswerStream, form: StreamForm, bound: BoundRequest, exchange: Exchange, cells: RequestCells): void {
    const { accept } = exchange.request.headers;
    if (accept === undefined && bound.alt === undefined) {
      this.#pump(stream, { ...form, file: true }, exchange, cells);
      return;
    }
    const peeked = new PeekedStream(stream);
    exchange.response.once("close", () => peeked.close());
    peeked.peek((first) => {
      const contentType = contentTypeOf(first);
      const wanted =
        contentType === undefined ? undefined : preferredMediaType(accept, [form.contentType, contentType]);
      const raw = bound.alt === "media" || (contentType !== undefined && wanted === contentType);
      const body = {
        form: bodyData,
        contentType: contentType ?? "application/octet-stream",
        errorBytes: () => undefined,
      };
      this.#pump(peeked, { ...(raw ? body : form), file: true }, exchange, cells);
    });
  }

  #pump(stream: AnswerStream, body: BodyForm, exchange: Exchange, cells: RequestCells): void {
    const { response, request, common } = exchange;
    const ownHeaders = !body.file || body.form === bodyData;
    const own = ownHeaders ? stream : undefined;
    const trailerNames = exchange.head || !canHaveTrailers(response) ? [] : (own?.trailerNames ?? []);
    const headers = this.#headers(body, common, own, trailerNames);
    if (exchange.head) {
      stream.close();
      const failure = stream.failure;
      if (failure === undefined) response.writeHead(200, headers);
      if (failure === undefined) response.end();
      else refuse(exchange, failure, this.#options.log);
      cells.streamRefused(failure === undefined ? 0 : grpcCode(failure));
      return;
    }
    const acceptEncoding = request.headers["accept-encoding"];
    const { log, limits } = this.#options;
    const inChunks = chunkedForm(body.form);
    const chunks = body.file || inChunks === undefined ? undefined : chunkSocket(response);
    const sink = new StreamResponse({
      response,
      headers,
      chunks,
      coding: body.file && typeof acceptEncoding === "string" ? chooseCoding(acceptEncoding) : undefined,
      ownTrailers: ownHeaders,
      refuse: (failure) => refuse(exchange, failure, log),
      errorBytes: (failure) => body.errorBytes(failure),
      drained: () => pump.drained(),
    });
    const events = {
      toFailure: (thrown: unknown) => toFailure(thrown, log),
      finished: (code: number) => cells.streamClosed(code),
    };
    const form = chunks === undefined || inChunks === undefined ? body.form : inChunks;
    const pump = new AnswerPump(stream, form, sink, events, limits.breakOffMs);
    cells.streamOpened();
    response.once("close", () => pump.left());
    pump.run();
  }

  #headers(
    body: BodyForm,
    common: HeaderFields,
    stream: AnswerStream | undefined,
    trailerNames: readonly string[],
  ): HeaderFields {
    return {
      "content-type": body.contentType,
      "cache-control": "no-store",
      vary: this.#vary,
      // Proxies of the nginx kind would otherwise collect a stream before they pass it on.
      "x-accel-buffering": "no",
      ...this.#options.common.exposing(common, [...(stream?.headers.keys() ?? [])]),
      ...Object.fromEntries(stream?.headers ?? []),
      ...(trailerNames.length === 0 ? {} : { trailer: trailerNames.join(", ") }),
    };
  }
}

function contentTypeOf(first: Answer | undefined): string | undefined {
  const message = first?.message();
  if (message === undefined || !isMessage(message, HttpBodySchema) || message.contentType === "") return undefined;
  return message.contentType;
}
