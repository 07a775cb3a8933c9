import { type DescMessage, toJson } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import {
  ExportLedgerEntriesRequestSchema,
  GetLatestMarketDepthRequestSchema,
  ListLatestMarketDataRequestSchema,
  ListLedgerEntriesRequestSchema,
  ObserveMarketsDepthUpdatesRequestSchema,
} from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { HttpBodySchema } from "../../../gen/google/api/httpbody_pb.js";
import { Failure } from "../../../src/domain/failure.js";
import { QueryParameters } from "../../../src/transport/http/query-parameters.js";

const ledger = new QueryParameters(ListLedgerEntriesRequestSchema, []);
const depth = new QueryParameters(GetLatestMarketDepthRequestSchema, ["market_id"]);
const data = new QueryParameters(ListLatestMarketDataRequestSchema, []);
const stream = new QueryParameters(ObserveMarketsDepthUpdatesRequestSchema, [], "sse");
const file = new QueryParameters(ExportLedgerEntriesRequestSchema, [], "media");

function bound(parameters: QueryParameters, schema: DescMessage, query: string, segments: string[] = []): unknown {
  return toJson(schema, parameters.bind(segments, query).message);
}

function failureOf(run: () => unknown): Failure {
  try {
    run();
  } catch (thrown) {
    if (thrown instanceof Failure) return thrown;
    throw thrown;
  }
  throw new Error("nothing was thrown");
}

describe("what parameters become", () => {
  test.each<[query: string, expected: unknown]>([
    ["", {}],
    ["&&", {}],
    ["filter.closeOnAccountFilters=true", { filter: { closeOnAccountFilters: true } }],
    ["filter.close_on_account_filters=true", { filter: { closeOnAccountFilters: true } }],
    ["filter.close_on_account_filters=false", { filter: {} }],
    ["filter.fromAccountFilter.assetId=A", { filter: { fromAccountFilter: { assetId: "A" } } }],
    ["filter.from_account_filter.assetId=A", { filter: { fromAccountFilter: { assetId: "A" } } }],
    ["filter.fromAccountFilter.asset_id=A", { filter: { fromAccountFilter: { assetId: "A" } } }],
    [
      "filter.fromAccountFilter.partyIds=a,b&filter.from_account_filter.party_ids=c",
      { filter: { fromAccountFilter: { partyIds: ["a,b", "c"] } } },
    ],
    [
      "filter.fromAccountFilter.accountTypes=ACCOUNT_TYPE_MARGIN&filter.fromAccountFilter.accountTypes=4",
      { filter: { fromAccountFilter: { accountTypes: ["ACCOUNT_TYPE_MARGIN", "ACCOUNT_TYPE_GENERAL"] } } },
    ],
    ["filter.transferTypes=TRANSFER_TYPE_LOSS", { filter: { transferTypes: ["TRANSFER_TYPE_LOSS"] } }],
    ["pagination.first=10&pagination.after=a+b%20c%2Bd", { pagination: { first: 10, after: "a b c+d" } }],
    ["pagination.first=-0007", { pagination: { first: -7 } }],
    ["pagination.first=2147483647", { pagination: { first: 2147483647 } }],
    ["pagination.newestFirst=false", { pagination: { newestFirst: false } }],
    ["pagination.after=", {}],
    ["filter.fromAccountFilter.partyIds=", {}],
    ["dateRange.startTimestamp=9223372036854775807", { dateRange: { startTimestamp: "9223372036854775807" } }],
    ["dateRange.endTimestamp=-9223372036854775808", { dateRange: { endTimestamp: "-9223372036854775808" } }],
    ["_=1690000000&_cb&pagination.first=1", { pagination: { first: 1 } }],
    ["pagination.after=%F0%9F%8E%88", { pagination: { after: "🎈" } }],
    ["pagination.after=a=b", { pagination: { after: "a=b" } }],
    ["p%61gination.after=x", { pagination: { after: "x" } }],
  ])("%s", (query, expected) => {
    expect(bound(ledger, ListLedgerEntriesRequestSchema, query)).toEqual(expected);
  });

  test.each([true, false])("every spelling of %s", (value) => {
    const spellings = value ? ["true", "True", "TRUE", "t", "T", "1"] : ["false", "False", "FALSE", "f", "F", "0"];
    for (const spelling of spellings) {
      const request = bound(ledger, ListLedgerEntriesRequestSchema, `pagination.newestFirst=${spelling}`);
      expect(request, spelling).toEqual({ pagination: { newestFirst: value } });
    }
  });

  test("the path's variables, with %2F as a part of them and + as itself", () => {
    expect(bound(depth, GetLatestMarketDepthRequestSchema, "max_depth=18446744073709551615", ["a%2Fb+c"])).toEqual({
      marketId: "a/b+c",
      maxDepth: "18446744073709551615",
    });
  });

  test("alt where it is known", () => {
    expect(stream.bind([], "alt=sse").alt).toBe("sse");
    expect(stream.bind([], "alt=").alt).toBeUndefined();
    expect(stream.bind([], "").alt).toBeUndefined();
    expect(file.bind([], "partyId=p&alt=media").alt).toBe("media");
  });
});

const accountType = "the name or number of a vega.AccountType, such as ACCOUNT_TYPE_INSURANCE or 1";
const exceptAccountType = `${accountType}; ACCOUNT_TYPE_UNSPECIFIED selects nothing`;
const int64Range = "an integer from -9223372036854775808 to 9223372036854775807";
const int32Range = "an integer from -2147483648 to 2147483647";

describe("what is refused", () => {
  test.each<[parameters: QueryParameters, query: string, message: string]>([
    [ledger, "pagination.frist=1", "pagination.frist: unknown parameter; did you mean pagination.first?"],
    [ledger, "first=1", "first: unknown parameter; did you mean pagination.first?"],
    [
      ledger,
      "dateRange=1",
      "dateRange: unknown parameter; did you mean one of dateRange.startTimestamp, dateRange.endTimestamp?",
    ],
    [
      ledger,
      "filter.from_account_filter=x",
      "filter.from_account_filter: unknown parameter; did you mean one of filter.fromAccountFilter.assetId, filter.fromAccountFilter.partyIds, filter.fromAccountFilter.marketIds, filter.fromAccountFilter.accountTypes?",
    ],
    [ledger, "PAGINATION.FIRST=1", "PAGINATION.FIRST: unknown parameter; did you mean pagination.first?"],
    [ledger, "alt=sse", "alt: unknown parameter; did you mean pagination.last?"],
    [stream, "alt=media", 'alt: got "media"; takes sse'],
    [file, "alt=sse", 'alt: got "sse"; takes media'],
    [stream, "alt=sse&alt=sse", 'alt: got "sse" and "sse"; takes one value'],
    [stream, "marketId=m", "marketId: unknown parameter; did you mean marketIds?"],
    [stream, "al=sse", "al: unknown parameter; did you mean alt?"],
    [data, "markets=m", "markets: unknown parameter; did you mean market?"],
    [ledger, "pagination.first=", `pagination.first: got ""; takes ${int32Range}`],
    [ledger, "pagination.first", `pagination.first: got ""; takes ${int32Range}`],
    [ledger, "pagination.first=1.0", `pagination.first: got "1.0"; takes ${int32Range}`],
    [ledger, "pagination.first=+1", `pagination.first: got " 1"; takes ${int32Range}`],
    [ledger, "pagination.first=%2B1", `pagination.first: got "+1"; takes ${int32Range}`],
    [ledger, "pagination.first=1e3", `pagination.first: got "1e3"; takes ${int32Range}`],
    [ledger, "pagination.first=0x10", `pagination.first: got "0x10"; takes ${int32Range}`],
    [ledger, "pagination.first=2147483648", `pagination.first: got "2147483648"; takes ${int32Range}`],
    [ledger, "pagination.first=-2147483649", `pagination.first: got "-2147483649"; takes ${int32Range}`],
    [ledger, "pagination.first=٣", `pagination.first: got "٣"; takes ${int32Range}`],
    [
      ledger,
      "dateRange.startTimestamp=9223372036854775808",
      `dateRange.startTimestamp: got "9223372036854775808"; takes ${int64Range}`,
    ],
    [ledger, "pagination.first=1&pagination.first=1", 'pagination.first: got "1" and "1"; takes one value'],
    [ledger, "pagination.newestFirst=", 'pagination.newestFirst: got ""; takes true or false'],
    [ledger, "pagination.newest_first=2", 'pagination.newestFirst: got "2"; takes true or false'],
    [ledger, "pagination.newestFirst=tRUE", 'pagination.newestFirst: got "tRUE"; takes true or false'],
    [ledger, "pagination.newestFirst=yes", 'pagination.newestFirst: got "yes"; takes true or false'],
    [
      ledger,
      "pagination.newestFirst=true&pagination.newest_first=false",
      'pagination.newestFirst: got "true" and "false"; takes one value',
    ],
    [ledger, "pagination.after=&pagination.after=x", 'pagination.after: got "" and "x"; takes one value'],
    [
      ledger,
      "filter.fromAccountFilter.accountTypes=ACCOUNT_TYPE_UNSPECIFIED",
      `filter.fromAccountFilter.accountTypes: got "ACCOUNT_TYPE_UNSPECIFIED"; takes ${exceptAccountType}`,
    ],
    [
      ledger,
      "filter.fromAccountFilter.accountTypes=0",
      `filter.fromAccountFilter.accountTypes: got "0"; takes ${exceptAccountType}`,
    ],
    [
      ledger,
      "filter.fromAccountFilter.account_types=9999",
      `filter.fromAccountFilter.accountTypes: got "9999"; takes ${exceptAccountType}`,
    ],
    [
      ledger,
      "filter.toAccountFilter.accountTypes=",
      `filter.toAccountFilter.accountTypes: got ""; takes ${exceptAccountType}`,
    ],
    [
      ledger,
      "filter.toAccountFilter.accountTypes=account_type_margin",
      `filter.toAccountFilter.accountTypes: got "account_type_margin"; takes ${exceptAccountType}`,
    ],
    [
      ledger,
      "filter.transferTypes=1,2",
      'filter.transferTypes: got "1,2"; takes the name or number of a vega.TransferType, such as TRANSFER_TYPE_LOSS or ' +
        "1; TRANSFER_TYPE_UNSPECIFIED selects nothing",
    ],
    [depth, "market_id=x", 'marketId: got "x" in the query; it is already given in the path'],
    [depth, "marketId=", 'marketId: got "" in the query; it is already given in the path'],
    [depth, "maxDepth=-1", 'maxDepth: got "-1"; takes an integer from 0 to 18446744073709551615'],
    [
      depth,
      "maxDepth=18446744073709551616",
      'maxDepth: got "18446744073709551616"; takes an integer from 0 to 18446744073709551615',
    ],
    [depth, "maxdepth=1", "maxdepth: unknown parameter; did you mean maxDepth?"],
    [ledger, "pagination.after=%zz", 'pagination.after: got "%zz"; takes percent escapes (%2F) of UTF-8 text'],
    [ledger, "pagination.after=%", 'pagination.after: got "%"; takes percent escapes (%2F) of UTF-8 text'],
    [ledger, "pagination.after=%ff", 'pagination.after: got "%ff"; takes percent escapes (%2F) of UTF-8 text'],
    [ledger, "%ff=1", '%ff: got "%ff"; takes percent escapes (%2F) of UTF-8 text'],
    [ledger, "=1", ": unknown parameter; did you mean pagination.last?"],
  ])("%# %s", (parameters, query, message) => {
    const failure = failureOf(() => parameters.bind(["m"], query));
    expect(failure.message).toBe(message);
    expect(failure.code).toBe("invalid_argument");
    const kinds = [
      [/: unknown parameter/, "UNKNOWN_PARAMETER"],
      [/takes the name or number/, "INVALID_ENUM_VALUE"],
    ] as const;
    expect(failure.reason).toBe(kinds.find(([text]) => text.test(message))?.[1] ?? "INVALID_PARAMETER");
    expect(failure.violations).toHaveLength(1);
    expect(`${failure.violations[0]?.field}: ${failure.violations[0]?.description}`).toBe(message);
  });

  test("a bad escape in the path names the variable", () => {
    expect(failureOf(() => depth.bind(["%e0"], "")).message).toBe(
      'marketId: got "%e0"; takes percent escapes (%2F) of UTF-8 text',
    );
  });

  test("long values and names are cut in messages", () => {
    const long = "x".repeat(5_000);
    expect(failureOf(() => ledger.bind([], `pagination.first=${long}`)).message.length).toBeLessThan(200);
    expect(failureOf(() => ledger.bind([], `${long}=1`)).message.length).toBeLessThan(200);
    expect(failureOf(() => ledger.bind([], `pagination.first=${"1".repeat(30_000)}`)).message.length).toBeLessThan(200);
  });
});

describe("definitions that no URL can fill stop the start", () => {
  test("bytes", () => {
    expect(() => new QueryParameters(HttpBodySchema, [])).toThrow("google.api.HttpBody: data cannot be given in a URL");
  });

  test("a path variable that is no field, or a list", () => {
    expect(() => new QueryParameters(GetLatestMarketDepthRequestSchema, ["market"])).toThrow(
      "datanode.api.v2.GetLatestMarketDepthRequest: path variable {market} is not a single field of it",
    );
    expect(() => new QueryParameters(ListLatestMarketDataRequestSchema, ["market"])).toThrow(
      "datanode.api.v2.ListLatestMarketDataRequest: path variable {market} is not a single field of it",
    );
  });
});
