import type { DescMethod } from "@bufbuild/protobuf";
import type { Any } from "@bufbuild/protobuf/wkt";
import type { Metadata } from "./metadata.js";
import { shortened } from "./printable.js";

/** Kinds of failure: the codes of gRPC without OK, by name. Transport maps each to the wire. */
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

/** How a protocol names fields and methods to its callers. */
export interface Terms {
  /** A field of the request, by its path in the definitions (`pagination.newest_first`). */
  field(path: string): string;
  method(desc: DescMethod): string;
}

/** The names of the definitions: the terms of gRPC, gRPC-Web and Connect. */
const definitionTerms: Terms = {
  field: (path) => path,
  method: (desc) => `${desc.parent.name}.${desc.name}`,
};

/** A field of the request that is wrong, and what it takes. */
export interface FieldViolation {
  readonly field: string;
  readonly description: string;
}

/** The parts of a {@link Failure} beside its code and message. */
export interface FailureParts {
  /** UPPER_SNAKE_CASE, for programs. */
  readonly reason: string;
  /** What `ErrorInfo` says beside the reason, for programs. */
  readonly reasonMetadata?: Readonly<Record<string, string>>;
  readonly violations?: readonly FieldViolation[];
  /** How long a client should wait before it tries again. */
  readonly retryAfterMs?: number;
  /** Whether places in streams that the client remembers are void: event streams make it forget them. */
  readonly voidsPlaces?: boolean;
  /** What the error carries beside its status. */
  readonly metadata?: Metadata;
  /** Replaces the details that are made from the other parts. */
  readonly details?: readonly Any[];
  /** For the log; never sent to a client. */
  readonly cause?: unknown;
}

/**
 * An error that a client may see. The message says what to change, and contains nothing internal. Anything else that is
 * thrown reaches clients as `internal` with an id only.
 */
export class Failure extends Error {
  readonly code: FailureCode;
  readonly reason: string;
  readonly reasonMetadata: Readonly<Record<string, string>>;
  readonly violations: readonly FieldViolation[];
  readonly retryAfterMs: number | undefined;
  readonly voidsPlaces: boolean;
  readonly metadata: Metadata | undefined;
  readonly details: readonly Any[] | undefined;
  /** The same failure in other terms; undefined: it names neither fields nor methods. */
  inTerms?: (terms: Terms) => Failure;

  constructor(code: FailureCode, message: string, parts: FailureParts) {
    super(message, parts.cause === undefined ? undefined : { cause: parts.cause });
    this.name = "Failure";
    this.code = code;
    this.reason = parts.reason;
    this.reasonMetadata = parts.reasonMetadata ?? {};
    this.violations = parts.violations ?? [];
    this.retryAfterMs = parts.retryAfterMs;
    this.voidsPlaces = parts.voidsPlaces ?? false;
    this.metadata = parts.metadata;
    this.details = parts.details;
  }
}

/** Characters of its input that an error repeats at most: clients accept few bytes of trailers, and logs are lines. */
export const repeatedLengthMax = 200;

/** Input as an error repeats it: cut to {@link repeatedLengthMax}. */
export function repeated(input: string): string {
  return shortened(input, repeatedLengthMax - 1);
}

/** A failure that names fields or methods: as the definitions do, until a protocol tells it in terms of its own. */
export function worded(inTerms: (terms: Terms) => Failure): Failure {
  return Object.assign(inTerms(definitionTerms), { inTerms });
}

/** INVALID_ARGUMENT for one field, by its path in the definitions. */
export function invalidArgument(path: string, description: string, reason?: string): Failure {
  return worded(({ field }) => invalidParameter(field(path), description, reason));
}

/** INVALID_ARGUMENT for what the caller knows by this very name. */
export function invalidParameter(field: string, description: string, reason = "INVALID_PARAMETER"): Failure {
  return new Failure("invalid_argument", `${field}: ${description}`, { reason, violations: [{ field, description }] });
}

/** UNAVAILABLE, with a time to retry. */
export function unavailable(message: string, reason: string, retryAfterMs: number, cause?: unknown): Failure {
  return new Failure("unavailable", message, { reason, retryAfterMs, cause });
}
