import { fromBinary, fromJson, type JsonValue, toBinary } from "@bufbuild/protobuf";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { credentials, Client as GrpcClient, type ServiceError } from "@grpc/grpc-js";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "../../gen/google/rpc/status_pb.js";
import {
  methodOf,
  type Outcome,
  outcomeOf,
  type ProtocolClient,
  rpcPath,
  type StreamName,
  type UnaryName,
} from "./protocol-client.js";
import { webClients } from "./web-clients.js";

export type { Outcome, ProtocolClient, StreamName, UnaryName };

interface ErrorBody {
  readonly code: number;
  readonly message: string;
  readonly details?: readonly { readonly "@type": string; readonly reason?: string }[];
}

function reasonOf(details: ErrorBody["details"]): string | undefined {
  return details?.find((detail) => detail["@type"].endsWith("google.rpc.ErrorInfo"))?.reason;
}

function errorOf(body: ErrorBody): Outcome {
  return { error: { code: body.code, message: body.message, reason: reasonOf(body.details) } };
}

/** gRPC by grpc-js, a library that is not ours. */
export class GrpcProtocolClient implements ProtocolClient {
  readonly name = "gRPC";
  readonly #client: GrpcClient;

  /** `authority`: the certificate to trust, in PEM, where the URL is one of TLS. */
  constructor(url: string, authority?: string) {
    const { host, protocol } = new URL(url);
    const secure = protocol === "https:" && authority !== undefined;
    const channel = secure ? credentials.createSsl(Buffer.from(authority)) : credentials.createInsecure();
    this.#client = new GrpcClient(host, channel);
  }

  unary(name: UnaryName, request: JsonValue): Promise<Outcome> {
    const { input, output } = methodOf(name);
    return new Promise((resolve) => {
      this.#client.makeUnaryRequest(
        rpcPath(name),
        () => Buffer.from(toBinary(input, fromJson(input, request))),
        (bytes) => fromBinary(output, bytes),
        undefined,
        (error, message) => resolve(error === null ? outcomeOf(output, message) : grpcError(error)),
      );
    });
  }

  stream(name: StreamName, request: JsonValue, count: number): Promise<Outcome[]> {
    const { input, output } = methodOf(name);
    const call = this.#client.makeServerStreamRequest(
      rpcPath(name),
      () => Buffer.from(toBinary(input, fromJson(input, request))),
      (bytes) => fromBinary(output, bytes),
      undefined,
    );
    return new Promise((resolve) => {
      const taken: Outcome[] = [];
      call.on("data", (message) => {
        if (taken.push(outcomeOf(output, message)) === count) call.cancel();
      });
      call.on("error", (error: ServiceError) => {
        if (taken.length < count) taken.push(grpcError(error));
        resolve(taken.slice(0, count));
      });
      call.on("end", () => resolve(taken.slice(0, count)));
    });
  }

  close(): void {
    this.#client.close();
  }
}

function grpcError(error: ServiceError): Outcome {
  const details = error.metadata.get("grpc-status-details-bin")[0];
  const status = details instanceof Buffer ? fromBinary(StatusSchema, details) : undefined;
  const info = status?.details.map((detail) => anyUnpack(detail, ErrorInfoSchema)).find((each) => each !== undefined);
  return { error: { code: error.code, message: error.details, reason: info?.reason } };
}

/** Plain GET with JSON, and JSON lines, at the specification's URLs. */
export class HttpProtocolClient implements ProtocolClient {
  readonly name = "HTTP";
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  async unary(name: UnaryName, request: JsonValue): Promise<Outcome> {
    const response = await fetch(this.#url + getUrl(name, request));
    const body = (await response.json()) as JsonValue;
    return response.ok ? { reply: body } : errorOf(body as unknown as ErrorBody);
  }

  async stream(name: StreamName, request: JsonValue, count: number): Promise<Outcome[]> {
    const gone = new AbortController();
    const response = await fetch(this.#url + getUrl(name, request), { signal: gone.signal });
    if (!response.ok) return [errorOf((await response.json()) as ErrorBody)];
    const taken: Outcome[] = [];
    try {
      for await (const line of linesOf(response)) {
        const message = JSON.parse(line) as { result: JsonValue } | { error: ErrorBody };
        taken.push("result" in message ? { reply: message.result } : errorOf(message.error));
        if (taken.length === count) break;
      }
    } finally {
      gone.abort();
    }
    return taken;
  }

  close(): void {}
}

async function* linesOf(response: Response): AsyncGenerator<string> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest !== "") throw new Error(`the body ends within a line: ${rest}`);
}

const urls: Record<UnaryName | StreamName, string> = {
  getMarket: "/api/v2/market/{marketId}",
  getLatestMarketDepth: "/api/v2/market/depth/{marketId}/latest",
  getLatestMarketData: "/api/v2/market/data/{marketId}/latest",
  listLatestMarketData: "/markets/data",
  observeMarketsDepthUpdates: "/api/v2/stream/markets/depth/updates",
  listLedgerEntries: "/api/v2/ledgerentry/history",
  exportLedgerEntries: "/api/v2/ledgerentry/export",
  listERC20MultiSigSignerRemovedBundles: "/api/v2/erc20/multisigcontrol/signer/removed/bundles",
  listMarkets: "/api/v2/markets",
  observeMarketsData: "/api/v2/stream/markets/data",
  observeTrades: "/api/v2/stream/trades",
  observeCandleData: "/api/v2/stream/candle/data",
  listAssets: "/api/v2/assets",
  getAsset: "/api/v2/asset/{assetId}",
  listTrades: "/api/v2/trades",
  getLastTrade: "/api/v2/market/{marketId}/trade/latest",
  listCandleIntervals: "/api/v2/candle/intervals",
  listCandleData: "/api/v2/candle",
  listAccounts: "/api/v2/accounts",
  listBalanceChanges: "/api/v2/balance/changes",
  getMarketDepthAt: "/api/v2/market/depth/{marketId}/at",
  listMarketDepthChanges: "/api/v2/market/depth/{marketId}/changes",
  replayMarketsDepth: "/api/v2/stream/markets/depth/replay",
};

/** Written down here and not read from the definitions, so that it is the specification that the server is held to. */
export function getUrl(name: UnaryName | StreamName, request: JsonValue): string {
  let target = urls[name];
  const query = new URLSearchParams();
  flatten("", request, (key, value) => {
    if (target.includes(`{${key}}`)) target = target.replace(`{${key}}`, encodeURIComponent(value));
    else query.append(key, value);
  });
  return query.size === 0 ? target : `${target}?${query}`;
}

function flatten(prefix: string, value: JsonValue, visit: (key: string, value: string) => void): void {
  if (Array.isArray(value)) for (const item of value) flatten(prefix, item, visit);
  else if (typeof value === "object" && value !== null) {
    for (const [key, inner] of Object.entries(value)) flatten(prefix === "" ? key : `${prefix}.${key}`, inner, visit);
  } else visit(prefix, String(value));
}

/** Every client there is. `authority`: see {@link GrpcProtocolClient}. */
export function openClients(url: string, authority?: string): ProtocolClient[] {
  return [new GrpcProtocolClient(url, authority), ...webClients(url), new HttpProtocolClient(url)];
}
