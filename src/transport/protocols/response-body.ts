import { ServerResponse } from "node:http";
import type { Http2ServerResponse } from "node:http2";
import type { Failure } from "../../domain/failure.js";
import { endWithBody } from "../connections/unread-responses.js";
import type { AnyResponse } from "../handler.js";
import { breakOffCode } from "./grpc.js";

/**
 * Writes a response without HTTP trailers. Over HTTP/2 it bypasses Node's response object, which ends every body with a
 * separate frame. A client that takes the last message for the end may cancel its request before that frame, and then
 * reports an error.
 */
export class ResponseBody {
  readonly #response: AnyResponse;

  constructor(response: AnyResponse) {
    this.#response = response;
  }

  /** Sends the status and the headers that were set, unless they were sent already. */
  begin(): void {
    if (this.#response instanceof ServerResponse) this.#response.flushHeaders();
    else respond(this.#response);
  }

  /** False: wait for the response's drain. */
  write(chunk: Uint8Array): boolean {
    return this.#response instanceof ServerResponse ? this.#response.write(chunk) : this.#response.stream.write(chunk);
  }

  end(chunk: Uint8Array): void {
    if (this.#response instanceof ServerResponse) {
      this.#response.end(chunk);
      return;
    }
    respond(this.#response);
    const { stream } = this.#response;
    endWithBody(stream, stream, chunk);
  }

  /** Aborts a response whose reader takes nothing. */
  breakOff(failure: Failure): void {
    if (this.#response instanceof ServerResponse) this.#response.destroy();
    else this.#response.stream.close(breakOffCode(failure));
  }
}

function respond(response: Http2ServerResponse): void {
  const { stream } = response;
  if (stream.headersSent || stream.destroyed || stream.closed) return;
  stream.respond({ ...response.getHeaders(), ":status": response.statusCode });
}
