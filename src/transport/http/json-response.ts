import { Failure } from "../../domain/failure.js";
import type { Metadata } from "../../domain/metadata.js";
import type { CallError } from "../call/call-wire.js";
import { chooseCoding } from "../call/content-coding.js";
import type { Exchange } from "../connections/exchange.js";
import { WholeResponse } from "../whole-response.js";

/** The JSON response to a GET of a unary method. */
export class JsonResponse extends WholeResponse {
  /** `vary`: the value of that header. */
  constructor(exchange: Exchange, vary: string) {
    const wanted = chooseCoding(exchange.headers["accept-encoding"]?.toString());
    super(exchange, { codec: "json", contentType: "application/json", name: "json", vary }, wanted);
  }

  finish(error: CallError | undefined): void {
    if (error instanceof Failure) this.exchange.sendError(error);
  }

  protected headersOf({ headers }: Metadata): ReadonlyMap<string, string> {
    return headers;
  }
}
