import { toUSVString } from "node:util";
import { toBinary } from "@bufbuild/protobuf";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { type Code, ConnectError } from "@connectrpc/connect";
import { StatusSchema } from "../../../gen/google/rpc/status_pb.js";
import { Failure } from "../../domain/failure.js";
import { anyRegistry } from "../../encoding/json-encoder.js";
import type { CallError } from "../call/call-wire.js";
import { grpcCode, type ProtocolError, toStatus } from "../errors.js";

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

/** The error of a call for Connect's encoders: code, message and details are the same in every protocol. */
export function asConnectError(error: CallError): ConnectError {
  if (!(error instanceof Failure)) {
    const code: Code = grpcCode(error);
    return new ConnectError(error.message, code);
  }
  const status = toStatus(error);
  const code: Code = status.code;
  const connectError = new ConnectError(status.message, code, undefined, undefined, error);
  for (const detail of status.details) {
    const value = anyUnpack(detail, anyRegistry);
    const desc = value === undefined ? undefined : anyRegistry.getMessage(value.$typeName);
    const type = detail.typeUrl.slice(detail.typeUrl.lastIndexOf("/") + 1);
    connectError.details.push(value && desc ? { desc, value } : { type, value: detail.value });
  }
  if (error.retryAfterMs !== undefined) {
    connectError.metadata.set("retry-after", String(Math.ceil(error.retryAfterMs / 1000)));
  }
  return connectError;
}
