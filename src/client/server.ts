import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import type { MarketdClient } from "../../clients/typescript/src/client.js";
import { isTransient } from "../../clients/typescript/src/retry.js";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { exitUnavailable, OperatorError } from "../domain/operator-error.js";

/** The maximum time for a unary response. A server's own default is 30 seconds. */
export const responseMaxMs = 35_000;

/** A server that commands call, over its public API only. */
export interface Server {
  /** Including the base path, without a trailing slash. */
  readonly url: string;
  readonly client: MarketdClient;
}

/** Opens no connection yet. */
export function openServer(url: string): Server {
  const transport = createConnectTransport({ baseUrl: url, httpVersion: "1.1" });
  return { url, client: createClient(TradingDataService, transport) };
}

/** The reason of a failed call as one line without the code: the server's message, or why it is unreachable. */
export function reasonOf(error: ConnectError): string {
  if (error.rawMessage !== "") return error.rawMessage;
  // Node tries all addresses of a name, and its combined error has no message.
  const { cause } = error;
  return cause instanceof Error && "code" in cause ? String(cause.code) : Code[error.code];
}

/** An error of a call as one line that names the server; anything else unchanged. */
export function serverProblem(thrown: unknown, { url }: Server): unknown {
  if (!(thrown instanceof ConnectError)) return thrown;
  if (thrown.code === Code.Unimplemented)
    return new OperatorError(`${url} is not marketd: ${reasonOf(thrown)}`, 1, thrown);
  const exitCode = isTransient(thrown) ? exitUnavailable : 1;
  return new OperatorError(`${url}: ${reasonOf(thrown)}`, exitCode, thrown);
}
