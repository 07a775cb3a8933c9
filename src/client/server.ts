import type { RequestOptions } from "node:https";
import { Code, ConnectError } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { messageMaxBytes } from "../../clients/typescript/src/bounded-fetch.js";
import { createMarketdClient, type MarketdClient } from "../../clients/typescript/src/client.js";
import { decimalsOf } from "../../clients/typescript/src/decimals.js";
import { isTransient } from "../../clients/typescript/src/retry.js";
import type { GetMarketResponse } from "../../gen/datanode/api/v2/trading_data_pb.js";
import type { Market } from "../../gen/vega/markets_pb.js";
import { exitUnavailable, OperatorError } from "../domain/operator-error.js";
import { printable } from "../domain/printable.js";

/** The maximum time for a unary response. A server's own default is 30 seconds. */
export const responseMaxMs = 35_000;

/** Such a request, for a market or what all have, may take this long. */
export const shortResponseMaxMs = 5_000;

/** A server that commands call, over its public API only. */
export interface Server {
  /** Including the base path, without a trailing slash. */
  readonly url: string;
  readonly client: MarketdClient;
}

/** Opens no connection yet. `nodeOptions`: those of Node's requests. */
export function openServer(url: string, nodeOptions: RequestOptions = {}): Server {
  const options = { httpVersion: "1.1", useBinaryFormat: true, readMaxBytes: messageMaxBytes } as const;
  const transport = createConnectTransport({ ...options, baseUrl: url, nodeOptions });
  return { url, client: createMarketdClient(transport) };
}

/** The market of a response. @throws ConnectError, also if its decimals cannot be right */
export function marketOf({ market }: Pick<GetMarketResponse, "market">): Market {
  if (market === undefined) throw new ConnectError("the response has no market", Code.Internal);
  try {
    decimalsOf(market);
  } catch (error) {
    throw new ConnectError((error as Error).message, Code.OutOfRange, undefined, undefined, error);
  }
  return market;
}

/** The error of a server that lacks a block that another one behind the same address had. */
export function isBehind(): ConnectError {
  return new ConnectError("the server is behind another one", Code.Unavailable);
}

/** The maximum number of characters of a server's message that are shown. */
const reasonMax = 1_000;

/** The reason of a failed call as one printable line without the code: the server's message, or why it is unreachable. */
export function reasonOf(error: ConnectError): string {
  if (error.rawMessage !== "") return printable(error.rawMessage.slice(0, reasonMax));
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
