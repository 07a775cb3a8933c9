import { CallFailure } from "../chaos/call-failure.js";
import type { WholeResponse } from "../chaos/http-client.js";

/** An error as the HTTP API tells it. */
export interface ServiceError {
  readonly code: number;
  readonly message: string;
  /** Of its `ErrorInfo`; empty: none. */
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
}

export const codes = {
  invalidArgument: 3,
  notFound: 5,
  resourceExhausted: 8,
  failedPrecondition: 9,
  outOfRange: 11,
  internal: 13,
  unavailable: 14,
} as const;

/** Reads an error object. @throws CallFailure where it is none */
function serviceError(value: unknown): ServiceError {
  const { code, message, details } = (value ?? {}) as { code?: unknown; message?: unknown; details?: unknown };
  if (typeof code !== "number" || typeof message !== "string" || !Array.isArray(details)) {
    throw new CallFailure("malformed", `no error object: ${JSON.stringify(value)?.slice(0, 200)}`);
  }
  type Info = { "@type": string; reason?: string; metadata?: Record<string, string> };
  const info = (details as Info[]).find((detail) => detail["@type"].endsWith("google.rpc.ErrorInfo"));
  return { code, message, reason: info?.reason ?? "", metadata: info?.metadata ?? {} };
}

/** The error of a response that is not 200. */
export function errorOf({ status, body }: WholeResponse): ServiceError {
  try {
    return serviceError(JSON.parse(body.toString()));
  } catch {
    throw new CallFailure("malformed", `status ${status}: ${body.toString().slice(0, 200)}`);
  }
}

/** For counts: what an error is, without its particulars. */
export function errorText({ code, reason }: Pick<ServiceError, "code" | "reason">): string {
  return `code ${code} ${reason}`.trim();
}
