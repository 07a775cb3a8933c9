import { randomUUID } from "node:crypto";
import { toUSVString } from "node:util";
import { create, type MessageShape } from "@bufbuild/protobuf";
import { type Any, anyPack, anyUnpack } from "@bufbuild/protobuf/wkt";
import { type Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "../../gen/google/rpc/status_pb.js";
import { Failure, type FailureCode } from "../domain/failure.js";
import { shortened } from "../domain/printable.js";
import { anyRegistry } from "./json-encoder.js";

/** The domain of the reasons in `google.rpc.ErrorInfo`. */
export const errorDomain = "marketd";

/** Failure codes as gRPC numbers: the only place where they are mapped. */
const grpcCodes: Readonly<Record<FailureCode, Code>> = {
  cancelled: 1,
  unknown: 2,
  invalid_argument: 3,
  deadline_exceeded: 4,
  not_found: 5,
  already_exists: 6,
  permission_denied: 7,
  resource_exhausted: 8,
  failed_precondition: 9,
  aborted: 10,
  out_of_range: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  data_loss: 15,
  unauthenticated: 16,
};

/** The names of gRPC statuses by their numbers, as in metrics. */
export const statusNames: readonly string[] = ["ok", ...Object.keys(grpcCodes)];

/** The gRPC status number of a failure; Connect's codes are the same. */
export function grpcCode(failure: Pick<Failure, "code">): Code {
  return grpcCodes[failure.code];
}

/**
 * The longest error text, in characters; longer ones are cut. Errors repeat input, and gRPC sends them in trailers, of
 * which many clients accept only 8 KiB.
 */
export const errorTextLengthMax = 512;

/** The maximum number of field violations in an error. */
export const violationsMax = 8;

/** A text that every protocol can send: cut to the limit, and well-formed Unicode. */
function sendable(text: string): string {
  return toUSVString(shortened(text, errorTextLengthMax));
}

/** The `google.rpc.Status` of a failure, which every protocol carries. */
export function toStatus(failure: Failure): MessageShape<typeof StatusSchema> {
  const details = failure.details === undefined ? detailsOf(failure) : [...failure.details];
  return create(StatusSchema, { code: grpcCode(failure), message: sendable(failure.message), details });
}

function detailsOf(failure: Failure): Any[] {
  const { reason, reasonMetadata } = failure;
  const info = create(ErrorInfoSchema, { reason, domain: errorDomain, metadata: { ...reasonMetadata } });
  const details = [anyPack(ErrorInfoSchema, info)];
  if (failure.violations.length > 0) {
    const fieldViolations = failure.violations.slice(0, violationsMax).map(({ field, description }) => {
      return { field: sendable(field), description: sendable(description) };
    });
    details.unshift(anyPack(BadRequestSchema, create(BadRequestSchema, { fieldViolations })));
  }
  if (failure.retryAfterMs !== undefined) {
    const retryDelay = {
      seconds: BigInt(Math.floor(failure.retryAfterMs / 1000)),
      nanos: (failure.retryAfterMs % 1000) * 1_000_000,
    };
    details.push(anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay })));
  }
  return details;
}

/** A failure for Connect's library: code, message and details are the same in every protocol. */
export function toConnectError(failure: Failure): ConnectError {
  const status = toStatus(failure);
  const connectError = new ConnectError(status.message, grpcCode(failure), undefined, undefined, failure);
  for (const detail of status.details) {
    const value = anyUnpack(detail, anyRegistry);
    const desc = value === undefined ? undefined : anyRegistry.getMessage(value.$typeName);
    const type = detail.typeUrl.slice(detail.typeUrl.lastIndexOf("/") + 1);
    connectError.details.push(value && desc ? { desc, value } : { type, value: detail.value });
  }
  if (failure.retryAfterMs !== undefined) {
    connectError.metadata.set("retry-after", String(Math.ceil(failure.retryAfterMs / 1000)));
  }
  return connectError;
}

/** Where errors go that no client may see. */
export interface ErrorLog {
  error(fields: object, message: string): void;
}

/**
 * Converts a thrown error to one that a client may see. A Failure is returned unchanged. Anything else is logged under
 * an id and becomes INTERNAL with that id.
 */
export function clientFailure(thrown: unknown, log: ErrorLog): Failure {
  if (thrown instanceof Failure) return thrown;
  const id = randomUUID();
  log.error({ err: thrown, id }, "request failed");
  return new Failure("internal", `internal error; report it with id ${id}`, { reason: "INTERNAL", cause: thrown });
}
