import { OperatorError } from "../domain/operator-error.js";
import type { KafkaAddress } from "./kafka-address.js";

/** The topic cannot be read now, but another attempt may succeed: brokers are away, or elect a leader. */
export class KafkaOutage extends Error {}

/** What errors of the client, of Node's TLS and of sockets may have. */
interface Part extends Error {
  readonly code?: unknown;
  /** Kafka's name of an error that a broker returned. */
  readonly apiId?: unknown;
  readonly response?: { readonly mechanisms?: readonly string[] };
}

/** An error with its causes and the errors that it combines, each before what it is caused by. */
function* partsOf(error: unknown): Generator<Part> {
  if (!(error instanceof Error)) return;
  yield error;
  yield* partsOf(error.cause);
  if (error instanceof AggregateError) for (const each of error.errors) yield* partsOf(each);
}

/** Codes of Node for certificates that are refused. */
const certificateCode = /^(CERT_|DEPTH_ZERO_|ERR_TLS_CERT_|HOSTNAME_MISMATCH|INVALID_CA|SELF_SIGNED_|UNABLE_TO_)/;

/** Something that the client or this machine lacks, whichever broker is asked. */
const unsupportedCode = /^PLT_KFK_UNSUPPORTED/;

/** An error of the client as a {@link KafkaOutage}, or as an OperatorError if waiting does not help. */
export function explainKafkaError(error: unknown, address: KafkaAddress): unknown {
  const parts = [...partsOf(error)];
  if (!parts.some(({ code }) => typeof code === "string" && code.startsWith("PLT_KFK_"))) return error;
  const what = `topic ${address.topic} cannot be read`;
  const lasting = lastingProblem(parts, address);
  if (lasting !== undefined) return new OperatorError(`${what}: ${lasting}`, 1, error);
  return new KafkaOutage(`${what}: ${passingProblem(parts, address)}`, { cause: error });
}

/** What the operator must change; undefined: nothing, another attempt may succeed. */
function lastingProblem(parts: readonly Part[], { user, topic }: KafkaAddress): string | undefined {
  const returned = new Set(parts.map(({ apiId }) => apiId));
  if (returned.has("SASL_AUTHENTICATION_FAILED")) {
    const sasl = user?.mechanism.toLowerCase();
    return `the brokers refuse user ${user?.username} with this password and sasl=${sasl}; correct user, password-file or sasl in the Kafka URL`;
  }
  if (returned.has("UNSUPPORTED_SASL_MECHANISM")) {
    const known = parts.flatMap(({ response }) => response?.mechanisms ?? []);
    return `the brokers do not take sasl=${user?.mechanism.toLowerCase()}; they take ${known.join(", ").toLowerCase()}`;
  }
  if (returned.has("TOPIC_AUTHORIZATION_FAILED")) {
    const who = user === undefined ? "a reader without sasl and user" : `user ${user.username}`;
    return `the brokers do not let ${who} read it; allow READ and DESCRIBE of topic ${topic}`;
  }
  if (returned.has("OFFSET_OUT_OF_RANGE")) {
    return "it does not have the messages that are needed next; they were deleted before they were loaded, or lost by brokers";
  }
  const certificate = parts.find(({ code }) => typeof code === "string" && certificateCode.test(code));
  if (certificate !== undefined) {
    return `the brokers' certificate is refused: ${certificate.message}; correct ssl-mode or ssl-ca in the Kafka URL`;
  }
  const unsupported = parts.find(({ code }) => typeof code === "string" && unsupportedCode.test(code));
  if (unsupported !== undefined) return unsupported.message;
  const last = parts.at(-1);
  // With a cause, it was a connection that broke meanwhile.
  const isRefusal = last?.code === "PLT_KFK_AUTHENTICATION" || returned.has("INVALID_TOPIC_EXCEPTION");
  return isRefusal ? last?.message : undefined;
}

function passingProblem(parts: readonly Part[], { tls, user }: KafkaAddress): string {
  if (parts.some(({ apiId }) => apiId === "UNKNOWN_TOPIC_OR_PARTITION")) return "it does not exist";
  const reason = parts.findLast(({ message }) => message !== "")?.message ?? "the brokers failed";
  const isPlain = tls === undefined && user === undefined;
  return reason === "Connection closed" && isPlain
    ? "the brokers closed the connection, as they do where they require ssl-mode or sasl"
    : reason;
}
