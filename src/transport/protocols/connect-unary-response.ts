import { codeToHttpStatus, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import type { Metadata } from "../../domain/metadata.js";
import { jsonWriteOptions } from "../../encoding/json-encoder.js";
import type { ContentCoding } from "../call/content-coding.js";
import type { Exchange } from "../connections/exchange.js";
import { asConnectError, type CallError, HttpFailure } from "../errors.js";
import { WholeResponse } from "../whole-response.js";
import type { RpcContentType } from "./rpc-methods.js";

/** A Connect unary response: the message itself, or an error as JSON with its own HTTP status. */
export class ConnectUnaryResponse extends WholeResponse {
  readonly #vary: string;

  constructor(type: RpcContentType, coding: ContentCoding | undefined, exchange: Exchange, vary: string) {
    const { codec, response: contentType } = type;
    super(exchange, { codec, contentType, name: `connect-${codec}`, vary }, coding);
    this.#vary = vary;
  }

  override finish(error: CallError | undefined): void {
    if (error === undefined) return;
    const connectError = asConnectError(error);
    const body = errorToJsonBytes(connectError, jsonWriteOptions);
    if (error.metadata !== undefined) this.exchange.addOwn(this.headersOf(error.metadata));
    const headers = {
      ...Object.fromEntries(connectError.metadata),
      ...{ vary: this.#vary, "content-type": "application/json", "content-length": body.length },
    };
    this.exchange.send(
      error instanceof HttpFailure ? error.status : codeToHttpStatus(connectError.code),
      headers,
      body,
    );
  }

  /** Nothing follows the message, so trailers are headers with a prefix. */
  protected override headersOf({ headers, trailers }: Metadata): ReadonlyMap<string, string> {
    return new Map([...headers, ...[...trailers].map(([name, value]) => [`trailer-${name}`, value] as const)]);
  }
}
