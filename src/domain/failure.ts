import type { Any } from "@bufbuild/protobuf/wkt";
import type { Metadata } from "./metadata.js";

/** What can go wrong: the codes of gRPC without OK, by their names. Each is mapped to the wire once, in transport. */
export type FailureCode =
  | "cancelled"
  | "unknown"
  | "invalid_argument"
  | "deadline_exceeded"
  | "not_found"
  | "already_exists"
  | "permission_denied"
  | "resource_exhausted"
  | "failed_precondition"
  | "aborted"
  | "out_of_range"
  | "unimplemented"
  | "internal"
  | "unavailable"
  | "data_loss"
  | "unauthenticated";

/** A field of the request that is wrong: its path (JSON names, dots between) and what it takes. */
export interface FieldViolation {
  readonly field: string;
  readonly description: string;
}

/** The parts of a {@link Failure} beside its code and message. */
export interface FailureParts {
  /** UPPER_SNAKE_CASE, for programs. */
  readonly reason: string;
  readonly violations?: readonly FieldViolation[];
  /** How long a client should wait before it tries again. */
  readonly retryAfterMs?: number;
  /** What the error carries beside its status. */
  readonly metadata?: Metadata;
  /** Sent in place of the details that the other parts make. */
  readonly details?: readonly Any[];
  /** Kept for the log; never sent to a client. */
  readonly cause?: unknown;
}

/**
 * An error that a client may see. The message tells the caller what to change; nothing internal belongs in it.
 * Everything that is thrown and is not a Failure reaches clients as `internal`, with an id and nothing else.
 */
export class Failure extends Error {
  readonly code: FailureCode;
  readonly reason: string;
  readonly violations: readonly FieldViolation[];
  readonly retryAfterMs: number | undefined;
  readonly metadata: Metadata | undefined;
  readonly details: readonly Any[] | undefined;

  constructor(code: FailureCode, message: string, parts: FailureParts) {
    super(message, parts.cause === undefined ? undefined : { cause: parts.cause });
    this.name = "Failure";
    this.code = code;
    this.reason = parts.reason;
    this.violations = parts.violations ?? [];
    this.retryAfterMs = parts.retryAfterMs;
    this.metadata = parts.metadata;
    this.details = parts.details;
  }
}

/** INVALID_ARGUMENT for one field: `field` is its path in the request by JSON names (`pagination.first`). */
export function invalidArgument(field: string, description: string, reason = "INVALID_PARAMETER"): Failure {
  return new Failure("invalid_argument", `${field}: ${description}`, { reason, violations: [{ field, description }] });
}

/** UNAVAILABLE, to be tried again after `retryAfterMs`. */
export function unavailable(message: string, reason: string, retryAfterMs: number, cause?: unknown): Failure {
  return new Failure("unavailable", message, { reason, retryAfterMs, cause });
}
