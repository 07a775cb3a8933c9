import { create, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import {
  GetLatestMarketDepthRequestSchema,
  GetLatestMarketDepthResponseSchema,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { envelope } from "../../src/transport/call/framing.js";

/** Depth as a gRPC path. */
export const depthRpcPath = "/datanode.api.v2.TradingDataService/GetLatestMarketDepth";

/** A depth response as our service gave it, which the compared servers give too. */
export interface Sample {
  readonly marketId: string;
  /** Of the JSON response, without those that Node makes itself. */
  readonly headers: Record<string, string>;
  /** Base64. */
  readonly json: string;
  /** Protobuf, base64. */
  readonly binary: string;
  /** Of the store that it was taken from, for servers that read it. */
  readonly databaseUrl?: string;
}

/** Headers that Node's server adds, or that belong to one response. */
const nodeHeaders = new Set(["date", "connection", "keep-alive", "content-length", "transfer-encoding"]);

/** Without it `fetch` asks for compressed responses, and the compared servers would send the headers of one. */
const asTheLoadAsks = { headers: { "accept-encoding": "identity" } };

/** Where a market's depth is by GET. */
export function depthPath(marketId: string): string {
  return `/api/v2/market/depth/${marketId}/latest`;
}

/** The body of a gRPC call for a market's depth. */
export function depthRequestFrame(marketId: string): Buffer {
  return envelope(
    0,
    toBinary(GetLatestMarketDepthRequestSchema, create(GetLatestMarketDepthRequestSchema, { marketId })),
  );
}

/** The largest book that a service has. @throws Error when it has none */
export async function takeSample(url: string): Promise<Sample> {
  const listed: unknown = await (await fetch(`${url}/markets/data`)).json();
  let best: Sample | undefined;
  for (const { market } of (listed as { marketsData: { market: string }[] }).marketsData) {
    const json = await fetch(`${url}${depthPath(market)}`, asTheLoadAsks);
    const bytes = Buffer.from(await json.arrayBuffer());
    if (json.status !== 200) throw new Error(`the service answered ${json.status}`);
    if (best !== undefined && Buffer.from(best.json, "base64").length >= bytes.length) continue;
    const headers = Object.fromEntries([...json.headers].filter(([name]) => !nodeHeaders.has(name)));
    best = { marketId: market, headers, json: bytes.toString("base64"), binary: await binaryDepth(url, market) };
  }
  if (best === undefined) throw new Error("the service has no market");
  return best;
}

/** The sample's response as a message. */
export function sampleMessage(sample: Sample): MessageShape<typeof GetLatestMarketDepthResponseSchema> {
  return fromBinary(GetLatestMarketDepthResponseSchema, Buffer.from(sample.binary, "base64"));
}

async function binaryDepth(url: string, marketId: string): Promise<string> {
  const body = depthRequestFrame(marketId).subarray(5);
  const response = await fetch(`${url}${depthRpcPath}`, {
    method: "POST",
    headers: { "content-type": "application/proto" },
    body,
  });
  if (response.status !== 200) throw new Error(`the service answered ${response.status}`);
  return Buffer.from(await response.arrayBuffer()).toString("base64");
}
