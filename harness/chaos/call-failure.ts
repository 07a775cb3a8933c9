import { fromBinary } from "@bufbuild/protobuf";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "../../gen/google/rpc/status_pb.js";

/** gRPC codes by number, as Connect names them. */
const connectCodes = [
  "ok",
  "canceled",
  "unknown",
  "invalid_argument",
  "deadline_exceeded",
  "not_found",
  "already_exists",
  "permission_denied",
  "resource_exhausted",
  "failed_precondition",
  "aborted",
  "out_of_range",
  "unimplemented",
  "internal",
  "unavailable",
  "data_loss",
  "unauthenticated",
];

export const codes = { deadlineExceeded: 4, notFound: 5, resourceExhausted: 8, internal: 13, unavailable: 14 } as const;

/** How a call ended that brought no response. */
export type FailureKind =
  /** The service said so, with a code. */
  | "said"
  /** Nobody took the connection. */
  | "refused"
  /** The connection ended before the response did. */
  | "broken"
  /** The body ended too soon, which is how a download says that it failed. */
  | "cut off"
  /** The client's own deadline passed. */
  | "late"
  /** What came is not what the protocol allows. */
  | "malformed";

/** A call without a response. */
export class CallFailure extends Error {
  constructor(
    readonly kind: FailureKind,
    message: string,
    readonly code = 0,
    /** The error told how long to wait. */
    readonly hasRetryInfo = false,
    /** The connection had served a response before. */
    readonly reused = false,
    /** The error said that a market's decimals changed. */
    readonly saysRedefined = false,
    /** Of the error's `ErrorInfo`; empty: none. */
    readonly reason = "",
  ) {
    super(message);
  }

  /** For the table of what went wrong. */
  get summary(): string {
    const code = this.kind === "said" ? ` ${connectCodes[this.code] ?? this.code}` : "";
    const retry = this.kind === "said" && this.hasRetryInfo ? " with RetryInfo" : "";
    return `${this.kind}${code}${retry}${this.reused ? " on a connection in use" : ""}: ${this.message.slice(0, 160)}`;
  }
}

/** The error object of HTTP bodies and of the last line of HTTP streams: `{code, message, details}`. */
export function failureFromJson(error: unknown, status: string): CallFailure {
  const { code, message, details } = (error ?? {}) as { code?: unknown; message?: unknown; details?: unknown };
  const number = typeof code === "string" ? connectCodes.indexOf(code) : code;
  if (typeof number !== "number" || number < 0)
    return new CallFailure("malformed", `${status}: ${JSON.stringify(error)}`);
  const text = JSON.stringify(details ?? []);
  // Connect's details have their bytes beside their JSON, if they have JSON at all.
  const values = [...text.matchAll(/"value":"([^"]*)"/g)].map(([, value = ""]) => Buffer.from(value, "base64"));
  const saysRedefined = text.includes('"redefined":"true"') || values.some((bytes) => bytes.includes("redefined"));
  const infos = [...text.matchAll(/"type":"google.rpc.ErrorInfo","value":"([^"]*)"/g)].map(([, value = ""]) => value);
  const reason = /"reason":"([A-Z_]+)"/.exec(text)?.[1] ?? reasonOf(infos.map((value) => Buffer.from(value, "base64")));
  const hasRetryInfo = text.includes("RetryInfo");
  return new CallFailure("said", String(message ?? status), number, hasRetryInfo, false, saysRedefined, reason);
}

function reasonOf([info]: readonly Uint8Array[]): string {
  return info === undefined ? "" : fromBinary(ErrorInfoSchema, info).reason;
}

/** A gRPC status with the bytes of its `grpc-status-details-bin`. */
export function failureFromStatus(code: number, message: string, details: Uint8Array | undefined): CallFailure {
  const all = details === undefined ? [] : fromBinary(StatusSchema, details).details;
  const hasRetryInfo = all.some(({ typeUrl }) => typeUrl.endsWith("RetryInfo"));
  const saysRedefined = all.some(({ value }) => Buffer.from(value).includes("redefined"));
  const infos = all.filter(({ typeUrl }) => typeUrl.endsWith("ErrorInfo")).map(({ value }) => value);
  return new CallFailure("said", message, code, hasRetryInfo, false, saysRedefined, reasonOf(infos));
}

/** An error of a socket, of a request or of a response that ended too soon. */
export function failureFromSocket(error: unknown, reused = false): CallFailure {
  if (error instanceof CallFailure) return error;
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const kind = code === "ECONNREFUSED" ? "refused" : "broken";
  return new CallFailure(
    kind,
    `${code} ${error instanceof Error ? error.message : String(error)}`.trim(),
    0,
    false,
    reused,
  );
}
