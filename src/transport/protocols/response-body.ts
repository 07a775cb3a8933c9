import { ServerResponse } from "node:http";
import type { Http2ServerResponse } from "node:http2";
import type { Failure } from "../../domain/failure.js";
import { endWithBody } from "../connections/unread-responses.js";
import type { AnyResponse } from "../handler.js";
import { breakOffCode } from "./grpc.js";

/**
 * Writes a response without HTTP trailers. Over HTTP/2 it goes past Node's response object, which ends every body in a
 * frame of its own: a client that takes the last message for the end may break off its request before that frame, and
 * then sees an error.
 */
export class ResponseBody {
  readonly #response: AnyResponse;

  constructor(response: AnyResponse) {
    this.#response = response;
  }

  /** Sends the status and the headers that were set on the response, if that has not been done. */
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

  /** Cuts a response that its reader does not take. */
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
