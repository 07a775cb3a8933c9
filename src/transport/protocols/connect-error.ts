import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { type Code, ConnectError } from "@connectrpc/connect";
import { Failure } from "../../domain/failure.js";
import { anyRegistry } from "../../encoding/json-encoder.js";
import type { CallError } from "../call/call-wire.js";
import { grpcCode, toStatus } from "../status.js";

/** What makes Connect send a failure as every other protocol does: same code, message and details. */
export function toConnectError(failure: Failure, protocolName: string): ConnectError {
  const status = toStatus(failure);
  const code: Code = status.code;
  const error = new ConnectError(status.message, code, undefined, undefined, failure);
  for (const detail of status.details) {
    const value = anyUnpack(detail, anyRegistry);
    const desc = value === undefined ? undefined : anyRegistry.getMessage(value.$typeName);
    if (value !== undefined && desc !== undefined) error.details.push({ desc, value });
    else error.details.push({ type: detail.typeUrl.slice(detail.typeUrl.lastIndexOf("/") + 1), value: detail.value });
  }
  if (failure.retryAfterMs !== undefined && protocolName === "connect") {
    error.metadata.set("retry-after", String(Math.ceil(failure.retryAfterMs / 1000)));
  }
  return error;
}

/** The same for whatever ends a call of the Connect protocol. */
export function asConnectError(error: CallError): ConnectError {
  if (error instanceof Failure) return toConnectError(error, "connect");
  const code: Code = grpcCode(error);
  return new ConnectError(error.message, code);
}
