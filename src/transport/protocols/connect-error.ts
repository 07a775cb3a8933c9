import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { type Code, ConnectError } from "@connectrpc/connect";
import { Failure } from "../../domain/failure.js";
import { anyRegistry } from "../../encoding/json-encoder.js";
import type { CallError } from "../call/call-wire.js";
import { grpcCode, toStatus } from "../status.js";

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
