import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { Code, type Client as ConnectClient, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import { MarketHistoryService } from "../../gen/marketd/history/v1/market_history_pb.js";
import {
  methodOf,
  type Outcome,
  outcomeOf,
  type ProtocolClient,
  type StreamName,
  type UnaryName,
} from "./protocol-client.js";

/** gRPC-Web and Connect by Connect's library for browsers, over `fetch`. Runs in browsers and in Node. */
class WebProtocolClient implements ProtocolClient {
  readonly name: string;
  readonly #client: ConnectClient<typeof TradingDataService> & ConnectClient<typeof MarketHistoryService>;

  constructor(name: string, transport: Transport) {
    this.name = name;
    this.#client = { ...createClient(TradingDataService, transport), ...createClient(MarketHistoryService, transport) };
  }

  async unary(name: UnaryName, request: JsonValue): Promise<Outcome> {
    const { input, output } = methodOf(name);
    try {
      const call = this.#client[name] as (message: unknown) => Promise<unknown>;
      return outcomeOf(output, await call(fromJson(input, request)));
    } catch (error) {
      return connectError(error);
    }
  }

  async stream(name: StreamName, request: JsonValue, count: number): Promise<Outcome[]> {
    const { input, output } = methodOf(name);
    const taken: Outcome[] = [];
    const gone = new AbortController();
    try {
      const call = this.#client[name] as (message: unknown, options: object) => AsyncIterable<unknown>;
      for await (const message of call(fromJson(input, request), { signal: gone.signal })) {
        if (taken.push(outcomeOf(output, message)) === count) break;
      }
    } catch (error) {
      taken.push(connectError(error));
    } finally {
      gone.abort();
    }
    return taken;
  }

  close(): void {}
}

function connectError(thrown: unknown): Outcome {
  const error = ConnectError.from(thrown, Code.Unknown);
  const [info] = error.findDetails(ErrorInfoSchema);
  return { error: { code: error.code, message: error.rawMessage, reason: info?.reason } };
}

/** Every mode of Connect's library for browsers, with its own settings: it knows no type that may be in an Any. */
export function webClients(baseUrl: string): ProtocolClient[] {
  return [
    new WebProtocolClient("gRPC-Web", createGrpcWebTransport({ baseUrl })),
    new WebProtocolClient("Connect POST, JSON", createConnectTransport({ baseUrl })),
    new WebProtocolClient("Connect POST, binary", createConnectTransport({ baseUrl, useBinaryFormat: true })),
    new WebProtocolClient("Connect GET", createConnectTransport({ baseUrl, useHttpGet: true })),
    new WebProtocolClient(
      "Connect GET, binary",
      createConnectTransport({ baseUrl, useHttpGet: true, useBinaryFormat: true }),
    ),
  ];
}
