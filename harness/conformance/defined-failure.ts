import { anyPack } from "@bufbuild/protobuf/wkt";
import { Failure, type FailureCode } from "../../src/domain/failure.js";
import type { Metadata } from "../../src/domain/metadata.js";
import { Code } from "./gen/connectrpc/conformance/v1/config_pb.js";
import {
  type ConformancePayload_RequestInfo,
  ConformancePayload_RequestInfoSchema,
  type Error as ErrorDefinition,
} from "./gen/connectrpc/conformance/v1/service_pb.js";

const codes: Readonly<Record<Code, FailureCode>> = {
  [Code.UNSPECIFIED]: "unknown",
  [Code.CANCELED]: "cancelled",
  [Code.UNKNOWN]: "unknown",
  [Code.INVALID_ARGUMENT]: "invalid_argument",
  [Code.DEADLINE_EXCEEDED]: "deadline_exceeded",
  [Code.NOT_FOUND]: "not_found",
  [Code.ALREADY_EXISTS]: "already_exists",
  [Code.PERMISSION_DENIED]: "permission_denied",
  [Code.RESOURCE_EXHAUSTED]: "resource_exhausted",
  [Code.FAILED_PRECONDITION]: "failed_precondition",
  [Code.ABORTED]: "aborted",
  [Code.OUT_OF_RANGE]: "out_of_range",
  [Code.UNIMPLEMENTED]: "unimplemented",
  [Code.INTERNAL]: "internal",
  [Code.UNAVAILABLE]: "unavailable",
  [Code.DATA_LOSS]: "data_loss",
  [Code.UNAUTHENTICATED]: "unauthenticated",
};

/** The failure that a request defines. `info` is added to its details, where no message tells it. */
export function definedFailure(
  { code, message, details }: ErrorDefinition,
  info: ConformancePayload_RequestInfo | undefined,
  metadata: Metadata,
): Failure {
  const added = info === undefined ? [] : [anyPack(ConformancePayload_RequestInfoSchema, info)];
  return new Failure(codes[code], message ?? "", {
    reason: "DEFINED_BY_REQUEST",
    details: [...details, ...added],
    metadata,
  });
}
