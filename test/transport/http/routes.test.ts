import { expect, test } from "vitest";
import { TradingDataService } from "../../../gen/datanode/api/v2/trading_data_pb.js";
import type { Api } from "../../../src/domain/service.js";
import { parsePathTemplate, Routes, splitTarget } from "../../../src/transport/http/routes.js";
import { fakeService } from "../fake-api.js";

const { api } = fakeService();

function found(routes: Routes, path: string): string | undefined {
  const match = routes.match(path);
  return match && `${match.route.method.desc.name}(${match.segments.join("|")})`;
}

test.each<[path: string, expected: string | undefined]>([
  ["/api/v2/market/m", "GetMarket(m)"],
  ["/api/v2/market/depth", "GetMarket(depth)"],
  ["/api/v2/market/depth/m/latest", "GetLatestMarketDepth(m)"],
  ["/api/v2/market/depth/latest/latest", "GetLatestMarketDepth(latest)"],
  ["/api/v2/market/a%2Fb", "GetMarket(a%2Fb)"],
  ["/api/v2/mark%65t/m", "GetMarket(m)"],
  ["/markets/data", "ListLatestMarketData()"],
  ["/api/v2/markets/data", "ListLatestMarketData()"],
  ["/api/v2/stream/markets/depth/updates", "ObserveMarketsDepthUpdates()"],
  ["/api/v2/ledgerentry/export", "ExportLedgerEntries()"],
  ["/api/v2/stream/markets/depth/updates/more", undefined],
  ["/api/v2/market/", undefined],
  ["/api/v2/market", undefined],
  ["/api/v2/market/m/", undefined],
  ["/api/v2/market/depth/m", undefined],
  ["/api/v2/market//latest", undefined],
  ["//api/v2/market/m", undefined],
  ["/API/v2/market/m", undefined],
  ["/", undefined],
  ["", undefined],
  ["*", undefined],
])("%s", (path, expected) => {
  expect(found(new Routes(api), path)).toBe(expected);
});

test("under a base path, and only there", () => {
  const routes = new Routes(api, "/data/node");
  expect(found(routes, "/data/node/api/v2/market/m")).toBe("GetMarket(m)");
  expect(found(routes, "/api/v2/market/m")).toBeUndefined();
  expect(found(routes, "/data/nodeapi/v2/market/m")).toBeUndefined();
});

test("errors name fields as parameters, and methods as URLs, with the base path", () => {
  const { terms } = new Routes(api, "/data/node");
  expect(terms.method(TradingDataService.method.listLatestMarketData)).toBe("GET /data/node/markets/data");
  expect(terms.field("filter.from_account_filter.party_ids")).toBe("filter.fromAccountFilter.partyIds");
  const fields = TradingDataService.methods.flatMap((method) => method.input.fields);
  for (const { name, jsonName } of fields) expect(terms.field(name)).toBe(jsonName);
});

test.each(["data", "/", "/data/", "/da ta?"])("the base path %s is refused", (basePath) => {
  if (basePath === "/da ta?") expect(() => new Routes(api, basePath)).toThrow("takes the form /prefix");
  else expect(() => new Routes(api, basePath)).toThrow(`base path "${basePath}": takes the form /prefix`);
});

test("two methods with the same path stop the start", () => {
  const [first] = api;
  const twice: Api = first === undefined ? [] : [first, first];
  expect(() => new Routes(twice)).toThrow("GetMarket and GetMarket claim the same path /api/v2/market/{market_id}");
});

test("every path of the definitions is served", () => {
  const routes = new Routes(api);
  expect(api.map((method) => method.desc.name)).toContain(TradingDataService.method.getMarket.name);
  expect(found(routes, "/api/v2/ledgerentry/history")).toBe("ListLedgerEntries()");
});

test.each<[text: string, message: string]>([
  ["api", 'path template "api": begins with a slash'],
  ["/a/**", 'path template "/a/**": "**" at position 3 is not a literal or {field}'],
  ["/a/{b=c/*}", 'path template "/a/{b=c/*}": "{b=c" at position 3 is not a literal or {field}'],
  ["/a/{b}:verb", 'path template "/a/{b}:verb": "{b}:verb" at position 3 is not a literal or {field}'],
  ["/a//b", 'path template "/a//b": "" at position 3 is not a literal or {field}'],
  ["/a/{B}", 'path template "/a/{B}": "{B}" at position 3 is not a literal or {field}'],
])("the template %s is refused", (text, message) => {
  expect(() => parsePathTemplate(text)).toThrow(message);
});

test("a template's parts", () => {
  expect(parsePathTemplate("/a/{b.c_d=*}/e").segments).toEqual([
    { kind: "literal", text: "a" },
    { kind: "variable", fieldPath: "b.c_d" },
    { kind: "literal", text: "e" },
  ]);
});

test.each([
  ["/a?b=c", "/a", "b=c"],
  ["/a?b=/c?d", "/a", "b=/c?d"],
  ["http://host/a?b", "/a", "b"],
  ["http://host", "/", ""],
  ["http://host?x=/status", "/", "x=/status"],
  ["http://host/?x", "/", "x"],
])("the target %s", (target, path, query) => {
  expect(splitTarget(target)).toEqual({ path, query });
});
