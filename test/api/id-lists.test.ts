import { type DescMessage, fromBinary, type JsonObject, toJson } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Asset, AssetSchema } from "../../gen/vega/assets_pb.js";
import { type Market, Market_State, MarketSchema } from "../../gen/vega/markets_pb.js";
import { jsonWriteOptions } from "../../src/encoding/json-encoder.js";
import { simulate } from "../../src/simulator/network.js";
import { frames } from "../simulator/recording-frames.js";
import { ApiCaller } from "../support/api-caller.js";
import { newDatabaseUrl } from "../support/database.js";
import { loadRecording } from "../support/load-recording.js";

/* ListMarkets, ListAssets and GetAsset against the events of a simulated network. */

const { url } = newDatabaseUrl();
const markets = new Map<string, Market>();
const assets = new Map<string, Asset>();
let api: ApiCaller;
let twin: ApiCaller;

beforeAll(async () => {
  const options = { seed: 5, blocks: 700, markets: 24, parties: 8, ordersPerBlock: 4, entriesPerBlock: 1 };
  const recording = Buffer.concat([...simulate(options)]);
  for (const { event } of frames(recording)) {
    const { case: kind, value } = event.event;
    if (kind === "marketCreated" || kind === "marketUpdated") markets.set(value.id, value);
    if (kind === "asset") assets.set(value.id, value);
  }
  await loadRecording(url, recording);
  api = await ApiCaller.open(url);
  twin = await ApiCaller.open(url);
});

afterAll(async () => {
  await api.opened.close();
  await twin.opened.close();
});

function json<S extends DescMessage>(schema: S, messages: Iterable<{ readonly id: string }>): JsonObject[] {
  const sorted = [...messages].sort((a, b) => (a.id < b.id ? -1 : 1));
  return sorted.map((message) => toJson(schema, message as never, jsonWriteOptions) as JsonObject);
}

const isOver = ({ state }: Market) => state === Market_State.SETTLED || state === Market_State.CLOSED;

describe.each([
  ["ListMarkets", {}, () => json(MarketSchema, markets.values())],
  [
    "ListMarkets",
    { includeSettled: false },
    () =>
      json(
        MarketSchema,
        [...markets.values()].filter((m) => !isOver(m)),
      ),
  ],
  ["ListAssets", {}, () => json(AssetSchema, assets.values())],
])("%s %j", (name, request, expected) => {
  test("lists by id what the network announced, in pages of any size and either direction", async () => {
    const whole = expected();
    expect(whole.length).toBeGreaterThan(2);
    const { edges, pageInfo } = await api.page(name, request);
    expect(edges.map(({ node }) => node)).toEqual(whole);
    expect(pageInfo).toMatchObject({ hasNextPage: false, hasPreviousPage: false });
    for (const size of [1, 2, 5, 5_000]) {
      for (const backwards of [false, true]) {
        expect(await api.pageThrough(name, request, size, { backwards })).toEqual(whole);
        expect(await api.pageThrough(name, request, size, { backwards, newestFirst: true })).toEqual(
          whole.toReversed(),
        );
      }
    }
  });

  test("has the same version and bytes in every process, and another for each request", async () => {
    const [one, other] = [await api.response(name, request), await twin.response(name, request)];
    expect(one.version).toBe(other.version);
    expect(Buffer.from(one.binary())).toEqual(Buffer.from(other.binary()));
    expect(JSON.parse(one.jsonText())).toEqual(
      toJson(one.schema, fromBinary(one.schema, one.binary()), jsonWriteOptions),
    );
    const page = await api.response(name, { ...request, pagination: { first: 1 } });
    expect(page.version).not.toBe(one.version);
    expect(await api.response(name, request)).toBe(one);
  });

  test("takes cursors of its own list only, also one whose id is gone", async () => {
    const { pageInfo } = await api.page(name, { ...request, pagination: { first: 1 } });
    const { endCursor } = pageInfo;
    const damaged = `${endCursor.slice(0, -1)}${endCursor.endsWith("A") ? "B" : "A"}`;
    for (const after of [damaged, "nothing"]) {
      const failure = await api.failure(name, { ...request, pagination: { after } });
      expect(failure).toEqual({ code: "invalid_argument", reason: "INVALID_CURSOR" });
    }
    const failure = await api.failure("ListLedgerEntries", { pagination: { after: endCursor } });
    expect(failure.reason).toBe("INVALID_CURSOR");
  });
});

test("an asset is given as it was last announced, alone and in a list", async () => {
  for (const [id, asset] of assets) {
    const [node] = json(AssetSchema, [asset]);
    expect(await api.json("GetAsset", { assetId: id })).toEqual({ asset: node });
    const { edges, pageInfo } = await api.page("ListAssets", { assetId: id });
    expect(edges.map((edge) => edge.node)).toEqual([node]);
    expect(pageInfo).toMatchObject({ hasNextPage: false, hasPreviousPage: false });
  }
  for (const name of ["GetAsset", "ListAssets"]) {
    const failure = await api.failure(name, { assetId: "nowhere" });
    expect(failure).toEqual({ code: "not_found", reason: "ASSET_UNKNOWN" });
  }
});

test("markets that are over are some of all", () => {
  const over = [...markets.values()].filter(isOver).length;
  expect([over > 0, over < markets.size]).toEqual([true, true]);
});
