/**
 * What can go wrong, as a closed set. Each code is mapped to the wire once, in transport.
 * The names are gRPC's, so that the mapping is a table and not a judgement.
 */
export type FailureCode =
  | "cancelled"
  | "invalid_argument"
  | "deadline_exceeded"
  | "not_found"
  | "resource_exhausted"
  | "unimplemented"
  | "internal"
  | "unavailable";

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

  constructor(code: FailureCode, message: string, parts: FailureParts) {
    super(message, parts.cause === undefined ? undefined : { cause: parts.cause });
    this.name = "Failure";
    this.code = code;
    this.reason = parts.reason;
    this.violations = parts.violations ?? [];
    this.retryAfterMs = parts.retryAfterMs;
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
