// Runs in a browser: calls every operation with every client library that browsers have.
import { fromBinary, fromJson, type JsonValue, type Message, toBinary } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { GrpcWebClientBase, MethodDescriptor, type RpcError } from "grpc-web";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { type Operation, outcomesOf } from "../support/operations.js";
import {
  methodOf,
  type Outcome,
  outcomeOf,
  type ProtocolClient,
  rpcPath,
  type StreamName,
  type UnaryName,
} from "../support/protocol-client.js";
import { webClients } from "../support/web-clients.js";

/** Google's runtime in its default mode, base64 text: in binary it shows a stream only when that has ended. */
class GoogleClient implements ProtocolClient {
  readonly name = "grpc-web";
  readonly #baseUrl: string;
  readonly #runtime = new GrpcWebClientBase();

  constructor(baseUrl: string) {
    this.#baseUrl = baseUrl;
  }

  unary(name: UnaryName, request: JsonValue): Promise<Outcome> {
    const { input, output } = methodOf(name);
    return new Promise((resolve) => {
      const url = this.#baseUrl + rpcPath(name);
      this.#runtime.rpcCall(url, fromJson(input, request), {}, descriptorOf(name), (error, message) =>
        resolve(error === null ? outcomeOf(output, message) : refused(error)),
      );
    });
  }

  stream(name: StreamName, request: JsonValue, count: number): Promise<Outcome[]> {
    const { input, output } = methodOf(name);
    const url = this.#baseUrl + rpcPath(name);
    const call = this.#runtime.serverStreaming(url, fromJson(input, request), {}, descriptorOf(name));
    return new Promise((resolve) => {
      const taken: Outcome[] = [];
      call.on("data", (message) => {
        if (taken.push(outcomeOf(output, message)) < count) return;
        call.cancel();
        resolve(taken);
      });
      call.on("error", (error) => resolve([...taken, refused(error)]));
      call.on("end", () => resolve(taken));
    });
  }

  close(): void {}
}

/** What protoc-gen-grpc-web writes for a method, but for the messages, which are those of protobuf-es. */
function descriptorOf(name: UnaryName | StreamName): MethodDescriptor<Message, Message> {
  const { input, output, methodKind } = methodOf(name);
  return new MethodDescriptor<Message, Message>(
    rpcPath(name),
    methodKind,
    Object as never,
    Object as never,
    (request: Message) => toBinary(input, request),
    (bytes: Uint8Array) => fromBinary(output, bytes),
  );
}

/** The runtime does not read the details of an error. */
function refused({ code, message }: RpcError): Outcome {
  return { error: { code, message, reason: undefined } };
}

/** What each operation gives a client. */
async function callAll(client: string, baseUrl: string, operations: readonly Operation[]): Promise<Outcome[][]> {
  const clients = [...webClients(baseUrl), new GoogleClient(baseUrl)];
  const named = clients.find(({ name }) => name === client);
  if (named === undefined) throw new Error(`there is no client ${client}`);
  return Promise.all(operations.map((operation) => outcomesOf(named, operation)));
}

/** What an export over Connect in JSON tells of the file. */
export interface ExportFacts {
  readonly extensions: number;
  readonly party: string | null;
  readonly sha256: string | null;
}

async function exportFacts(baseUrl: string, partyId: string, assetId: string): Promise<ExportFacts> {
  const client = createClient(TradingDataService, createConnectTransport({ baseUrl }));
  let headers = new Headers();
  let trailers = new Headers();
  let extensions = 0;
  const options = {
    onHeader: (received: Headers) => {
      headers = received;
    },
    onTrailer: (received: Headers) => {
      trailers = received;
    },
  };
  for await (const body of client.exportLedgerEntries({ partyId, assetId }, options)) {
    extensions += body.extensions.length;
  }
  return { extensions, party: headers.get("export-party-id"), sha256: trailers.get("export-sha256") };
}

Object.assign(globalThis, { callAll, exportFacts });
