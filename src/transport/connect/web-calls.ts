import type { IncomingHttpHeaders } from "node:http";
import type { Method } from "../../domain/service.js";
import { methodPath } from "../grpc/grpc-lane.js";
import type { ServedMethod } from "../grpc/rpc-call.js";
import { chooseCoding } from "../http/content-coding.js";
import type { AnyRequest, AnyResponse, LaneOptions } from "../lane.js";
import { startCall } from "./start-call.js";
import { type WebProtocol, webProtocols } from "./web-protocol.js";
import { WebWire } from "./web-wire.js";

/**
 * The short way for gRPC-Web calls and Connect streams without compression: their frames are shared by all who get the
 * same answer, and a stream's headers leave before its first message. What it does not take, Connect itself serves.
 */
export class WebCalls {
  readonly #served = new Map<WebProtocol, Map<string, ServedMethod>>();

  constructor(options: LaneOptions) {
    for (const protocol of new Set(webProtocols.values())) {
      const methods = options.api.filter((method) => protocol.unary || method.kind === "server_streaming");
      this.#served.set(protocol, new Map(methods.map((method) => [methodPath(method), serving(method)])));

      function serving(method: Method): ServedMethod {
        const cells = options.requests.cells(method, protocol.protocol);
        return { method, decode: protocol.decode, cells, options };
      }
    }
  }

  /** Serves the request if it is such a call; false: it is not. */
  handle(path: string, request: AnyRequest, response: AnyResponse): boolean {
    const protocol = webProtocols.get(request.headers["content-type"] ?? "");
    if (protocol === undefined || request.method !== "POST" || wantsCompression(request.headers)) return false;
    const served = this.#served.get(protocol)?.get(path);
    if (served === undefined) return false;
    serve(protocol, served, request, response);
    return true;
  }
}

/** A gRPC-Web answer is compressed only if its request was; a Connect stream says what it wants. */
function wantsCompression(headers: IncomingHttpHeaders): boolean {
  const sent = headers["grpc-encoding"] ?? headers["connect-content-encoding"];
  if (sent !== undefined && sent !== "identity") return true;
  const accepted = headers["connect-accept-encoding"];
  return typeof accepted === "string" && chooseCoding(accepted) !== undefined;
}

function serve(protocol: WebProtocol, served: ServedMethod, request: AnyRequest, response: AnyResponse): void {
  const wire = new WebWire(protocol, response);
  const call = startCall(protocol, served, wire, request, response);
  request.on("data", (chunk: Buffer) => call.data(chunk));
  request.on("end", () => call.end());
}
