import { toUSVString } from "node:util";
import { toBinary } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { StatusSchema } from "../../../gen/google/rpc/status_pb.js";
import { Failure } from "../../domain/failure.js";
import { grpcCode, toConnectError, toStatus } from "../../encoding/status.js";
import type { CallError } from "../call/call-wire.js";
import type { ProtocolError } from "../errors.js";

/** Trailers of a successful call. */
export const okTrailers: Readonly<Record<string, string>> = Object.freeze({ "grpc-status": "0" });

/** Characters that HTTP header values may not contain, and the percent sign. */
const unsafe = /[^\x20-\x24\x26-\x7e]+/g;

/**
 * Percent-encodes a `grpc-message`: UTF-8 bytes outside printable ASCII, and `%`.
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, "Percent-Encoded".
 */
export function percentEncode(message: string): string {
  return toUSVString(message).replace(unsafe, encodeURIComponent);
}

/** The trailers of a failed call; also the headers of a response that consists of an error. */
export function errorTrailers(error: Failure | ProtocolError): Record<string, string> {
  if (!(error instanceof Failure)) {
    return { "grpc-status": String(grpcCode(error)), "grpc-message": percentEncode(error.message) };
  }
  const status = toStatus(error);
  return {
    "grpc-status": String(status.code),
    "grpc-message": percentEncode(status.message),
    ...(status.details.length === 0 ? {} : { "grpc-status-details-bin": base64(toBinary(StatusSchema, status)) }),
  };
}

/** Without padding, as gRPC requires. */
function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64").replace(/=+$/, "");
}

/** The error of a call for Connect's encoders. */
export function asConnectError(error: CallError): ConnectError {
  return error instanceof Failure ? toConnectError(error) : new ConnectError(error.message, grpcCode(error));
}
