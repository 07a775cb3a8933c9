import { connect } from "node:http2";
import { Readable } from "node:stream";
import { create, toBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import {
  ExportLedgerEntriesRequestSchema,
  GetMarketRequestSchema,
  ListLedgerEntriesRequestSchema,
  ObserveMarketsDepthUpdatesRequestSchema,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { startTestService, type TestService } from "../live/service.js";
import { newDatabaseUrl } from "../support/database.js";
import { getUrl } from "../support/protocol-clients.js";
import { RecordingBuilder } from "../support/recording.js";
import { envelope, rawCallOn } from "../transport/grpc/raw-call.js";
import { firstBlockNs, laterBlocks, smallNetwork } from "./small-network.js";

/* Every response, over every protocol, names the newest block that it knows. */

const log = createLog("silent");
const { url: databaseUrl } = newDatabaseUrl();
const services: TestService[] = [];
let service: TestService;

const newest = { height: String(laterBlocks + 1), time: String(firstBlockNs + BigInt(laterBlocks)) };

beforeAll(async () => {
  await migrate(databaseUrl, log);
  const source = streamSource(Readable.from([smallNetwork().bytes()], { objectMode: false }), "a small network");
  await load({ database: databaseUrl, sources: [source], log });
  service = await startTestService(databaseUrl);
  services.push(service);
});

afterAll(() => Promise.all(services.map((each) => each.drain())));

async function read(path: string, init: RequestInit = {}, url = service.url) {
  const gone = new AbortController();
  const response = await fetch(url + path, { ...init, signal: gone.signal });
  gone.abort();
  const { headers, status } = response;
  return { status, height: headers.get("x-block-height"), time: headers.get("x-block-timestamp") };
}

const depthStream = getUrl("observeMarketsDepthUpdates", {});
const raw = { method: "POST", body: new Uint8Array() };
const rpc = "/datanode.api.v2.TradingDataService";
const getBusy = toBinary(GetMarketRequestSchema, create(GetMarketRequestSchema, { marketId: "busy" }));

test.each([
  ["a market", "/api/v2/market/busy", 200],
  ["markets data", "/markets/data", 200],
  ["a depth stream", depthStream, 200],
  ["server-sent events", `${depthStream}?alt=sse`, 200],
  ["ledger entries", "/api/v2/ledgerentry/history", 200],
  ["an empty page", "/api/v2/ledgerentry/history?dateRange.endTimestamp=1", 200],
  ["signer bundles", "/api/v2/erc20/multisigcontrol/signer/removed/bundles", 200],
  ["an export", "/api/v2/ledgerentry/export?partyId=bob&assetId=usd", 200],
  ["a raw export", "/api/v2/ledgerentry/export?partyId=bob&assetId=usd&alt=media", 200],
  ["an error", "/api/v2/market/unknown", 404],
  ["an unknown path", "/nothing", 404],
])("%s by GET", async (_what, path, status) => {
  expect(await read(path)).toEqual({ status, ...newest });
  expect(await read(path, { method: "HEAD" })).toEqual({ status, ...newest });
});

test("304, whose tag does not depend on the block", async () => {
  const { headers } = await fetch(`${service.url}/api/v2/market/busy`);
  const etag = headers.get("etag") ?? "";
  expect(await read("/api/v2/market/busy", { headers: { "if-none-match": etag } })).toEqual({ status: 304, ...newest });
});

test.each([
  ["application/proto", getBusy],
  ["application/json", '{"marketId":"busy"}'],
  ["application/grpc-web+proto", envelope(0, getBusy)],
])("GetMarket as %s", async (type, body) => {
  const init = { ...raw, headers: { "content-type": type }, body };
  expect(await read(`${rpc}/GetMarket`, init)).toEqual({ status: 200, ...newest });
});

test.each([
  ["application/connect+json", "ObserveMarketsDepthUpdates", "{}"],
  ["application/connect+json", "ExportLedgerEntries", '{"partyId":"bob","assetId":"usd"}'],
])("a stream as %s: %s", async (type, method, message) => {
  const init = { ...raw, headers: { "content-type": type }, body: envelope(0, Buffer.from(message)) };
  expect(await read(`${rpc}/${method}`, init)).toEqual({ status: 200, ...newest });
});

test("gRPC metadata", async () => {
  const calls = [
    ["GetMarket", getBusy, "0"],
    ["GetMarket", new Uint8Array(), "3"],
    ["ListLedgerEntries", toBinary(ListLedgerEntriesRequestSchema, create(ListLedgerEntriesRequestSchema)), "0"],
    [
      "ExportLedgerEntries",
      toBinary(
        ExportLedgerEntriesRequestSchema,
        create(ExportLedgerEntriesRequestSchema, { partyId: "bob", assetId: "usd" }),
      ),
      "0",
    ],
  ] as const;
  const session = connect(service.url);
  try {
    for (const [method, message, status] of calls) {
      const { headers, trailers } = await rawCallOn(session, {
        path: `${rpc}/${method}`,
        body: [envelope(0, message)],
      });
      expect({ ...headers, ...trailers }, method).toMatchObject({
        "grpc-status": status,
        "x-block-height": newest.height,
        "x-block-timestamp": newest.time,
      });
    }
    const request = toBinary(ObserveMarketsDepthUpdatesRequestSchema, create(ObserveMarketsDepthUpdatesRequestSchema));
    const stream = session.request({
      ":method": "POST",
      ":path": `${rpc}/ObserveMarketsDepthUpdates`,
      "content-type": "application/grpc",
      te: "trailers",
    });
    stream.end(envelope(0, request));
    const headers = await new Promise((resolve) => stream.once("response", resolve));
    expect(headers).toMatchObject({ "x-block-height": newest.height, "x-block-timestamp": newest.time });
    stream.on("error", () => {});
    stream.close();
  } finally {
    session.destroy();
  }
});

test("a WebSocket's handshake", async () => {
  const webSocket = new WebSocket(service.url.replace("http", "ws") + depthStream);
  const { headers } = await new Promise<{ headers: Record<string, unknown> }>((resolve) => {
    webSocket.once("upgrade", resolve);
  });
  webSocket.on("error", () => {});
  webSocket.terminate();
  expect(headers).toMatchObject({ "x-block-height": newest.height, "x-block-timestamp": newest.time });
});

test("a page of another origin may read them", async () => {
  const { headers } = await fetch(`${service.url}/api/v2/market/busy`, { headers: { origin: "https://a.example" } });
  const exposed = headers.get("access-control-expose-headers")?.split(", ");
  expect(exposed).toEqual(expect.arrayContaining(["x-block-height", "x-block-timestamp"]));
});

test("the next block changes them; before the first there are none", async () => {
  const { url } = newDatabaseUrl();
  await migrate(url, log);
  const empty = await startTestService(url);
  services.push(empty);
  expect(await read("/api/v2/market/busy", {}, empty.url)).toEqual({ status: 503, height: null, time: null });
  for (const height of [1, 2]) {
    const recording = new RecordingBuilder().block(1, 10n, (r) => void r.market("m"));
    if (height === 2) recording.block(2, 20n, () => {});
    const source = streamSource(Readable.from([recording.bytes()], { objectMode: false }), "blocks");
    await load({ database: url, sources: [source], log });
    const expected = { status: 200, height: String(height), time: `${height}0` };
    await expect.poll(() => read("/api/v2/market/m", {}, empty.url)).toEqual(expected);
  }
});
