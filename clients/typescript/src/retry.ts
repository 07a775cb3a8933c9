import { durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.js";
import { isTooLarge } from "./bounded-fetch.js";

/** The wait after a first failure. It doubles with each further failure in a row, up to {@link waitMaxMs}. */
export const firstWaitMs = 250;

/** The longest wait of our own choice. */
export const waitMaxMs = 30_000;

/** The longest wait that a server can ask for. */
export const askedWaitMaxMs = 600_000;

const permanentCodes: ReadonlySet<Code> = new Set([
  Code.InvalidArgument,
  Code.NotFound,
  Code.AlreadyExists,
  Code.PermissionDenied,
  Code.FailedPrecondition,
  Code.OutOfRange,
  Code.Unimplemented,
  Code.Unauthenticated,
]);

/** Connect's own errors begin so. It gives a response that breaks off the code of a mistake of the caller. */
const protocolError = "protocol error: ";

/**
 * Whether the same call can succeed later. False for mistakes of the caller, such as an unknown market, and for messages
 * that are too large.
 */
export function isTransient(error: ConnectError): boolean {
  if (isTooLarge(error)) return false;
  return !permanentCodes.has(error.code) || error.rawMessage.startsWith(protocolError);
}

const chainChanged = "CHAIN_CHANGED";

/** Whether the server's database holds another chain now, so that nothing that was read goes on there. */
export function isOfOtherChain(error: ConnectError): boolean {
  return error.findDetails(ErrorInfoSchema).some(({ reason }) => reason === chainChanged);
}

/** The error of a server that lacks what was read before. */
export function ofOtherChain(): ConnectError {
  const message = "the trades that were read are not in the database any more: it holds another chain";
  const details = [{ desc: ErrorInfoSchema, value: { reason: chainChanged } }];
  return new ConnectError(message, Code.Unavailable, undefined, details);
}

/**
 * Milliseconds to wait after a failure: what the server asked for (`RetryInfo`, or `Retry-After` in seconds), and on
 * top of it an exponential back-off, of which a random half is left out so that clients do not return all at once.
 * @param failures failures in a row, this one included: 1 or more
 * @param random from 0 to 1
 */
export function retryWaitMs(error: ConnectError, failures: number, random = Math.random()): number {
  const backOffMs = Math.min(waitMaxMs, firstWaitMs * 2 ** (failures - 1));
  return Math.min(askedWaitMaxMs, askedWaitMs(error)) + backOffMs * (0.5 + random / 2);
}

function askedWaitMs(error: ConnectError): number {
  const retryDelay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  if (retryDelay !== undefined) return Math.max(0, durationMs(retryDelay));
  const header = error.metadata.get("retry-after") ?? "";
  return /^[0-9]+$/.test(header) ? Number(header) * 1000 : 0;
}
