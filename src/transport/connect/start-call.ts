import type { CallWire } from "../grpc/call-wire.js";
import { ProtocolError } from "../grpc/protocol-error.js";
import { RpcCall, type ServedMethod } from "../grpc/rpc-call.js";
import type { AnyRequest, AnyResponse } from "../lane.js";

/** How a protocol says a deadline. */
export interface TimeoutRule {
  /** The header that holds it. */
  readonly timeoutHeader: string;
  /** The protocol's name in errors. */
  readonly timeoutName: string;
  /** Milliseconds; undefined when the text is none. */
  parseTimeout(text: string): number | undefined;
}

/** A call whose connection tells it when the client leaves; its request is still to be given to it. */
export function startCall(
  rule: TimeoutRule,
  served: ServedMethod,
  wire: CallWire,
  request: AnyRequest,
  response: AnyResponse,
): RpcCall {
  request.on("error", ignore);
  response.on("error", ignore);
  const timeout = request.headers[rule.timeoutHeader];
  const timeoutMs = typeof timeout === "string" ? rule.parseTimeout(timeout) : undefined;
  const call = new RpcCall(served, wire, served.options.clients.ofRequest(request), request.headers, timeoutMs);
  response.on("close", () => call.left());
  if (served.method.kind === "server_streaming") response.on("drain", () => call.drained());
  if (timeout !== undefined && timeoutMs === undefined) {
    const message = `protocol error: invalid ${rule.timeoutName} timeout value: ${timeout}`;
    call.refuse(new ProtocolError("invalid_argument", message));
  }
  return call;
}

/** What went wrong with the connection ends the call at "close". */
function ignore(): void {}
