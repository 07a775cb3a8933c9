import {
  create,
  type DescMessage,
  type DescMethod,
  type Message,
  type MessageInitShape,
  toBinary,
  toJsonString,
} from "@bufbuild/protobuf";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { MarketHistoryService } from "../../gen/marketd/history/v1/market_history_pb.js";
import { AccountType, TransferType } from "../../gen/vega/vega_pb.js";
import { encodeCursor, type ListName } from "../../src/domain/cursor.js";
import type { Random } from "../../src/simulator/random.js";
import { urlOf } from "../chaos/rest-paths.js";

/** What requests name. */
export interface Identifiers {
  readonly marketId: string;
  readonly partyId: string;
  readonly assetId: string;
}

/** A request in each of its forms. */
export interface Operation {
  /** Path and query of GET. */
  readonly url: string;
  /** Path of the RPC protocols. */
  readonly path: string;
  readonly json: string;
  readonly binary: Buffer;
  /** A subscription. */
  readonly isEndless: boolean;
}

type Requests<Methods extends Record<string, { readonly input: DescMessage }>> = {
  readonly [Name in keyof Methods]: (ids: Identifiers, random: Random) => MessageInitShape<Methods[Name]["input"]>;
};

/** A cursor with a checksum that is right, of any list and position. */
function anyCursor(random: Random): string {
  const lists = ["ledger", "bundles", "changes", "trades", "accounts", "balances", "candles", "assets", "markets"];
  const position = random.bytes(random.pick([0, 7, 8, 9, 16, 40]));
  return encodeCursor(random.pick(lists) as ListName, position);
}

/** A page of some size, forwards or backwards, from the start or behind any cursor. */
function anyPage(random: Random) {
  const size = 1 + random.below(5);
  const from = random.chance(0.3) ? anyCursor(random) : undefined;
  if (random.chance(0.3)) return { last: size, ...(from === undefined ? {} : { before: from }) };
  return { first: size, newestFirst: random.chance(0.5), ...(from === undefined ? {} : { after: from }) };
}

function anyRange(random: Random) {
  return random.chance(0.5) ? {} : { dateRange: { startTimestamp: BigInt(random.below(3)), endTimestamp: 2n } };
}

const candleIdOf = (marketId: string): string => `trades_candle_1_minute_${marketId}`;

/** A request of every method. The compiler asks for those that are added. */
const ofTradingData: Requests<typeof TradingDataService.method> = {
  getMarket: ({ marketId }) => ({ marketId }),
  getLatestMarketDepth: ({ marketId }, random) => ({ marketId, maxDepth: BigInt(random.below(5)) }),
  getLatestMarketData: ({ marketId }) => ({ marketId }),
  listLatestMarketData: () => ({}),
  observeMarketsDepthUpdates: ({ marketId }) => ({ marketIds: [marketId] }),
  listLedgerEntries: ({ partyId }, random) => {
    const account = { partyIds: [partyId], accountTypes: [AccountType.GENERAL] };
    const filter = random.chance(0.5) ? {} : { fromAccountFilter: account, transferTypes: [TransferType.LOSS] };
    return { filter, pagination: anyPage(random), ...anyRange(random) };
  },
  exportLedgerEntries: ({ partyId, assetId }, random) => {
    return { partyId, assetId: random.chance(0.5) ? assetId : "none", ...anyRange(random) };
  },
  listERC20MultiSigSignerRemovedBundles: (_, random) => {
    return { nodeId: "a", epochSeq: "1", pagination: anyPage(random) };
  },
  listMarkets: (_, random) => ({ includeSettled: random.chance(0.5), pagination: anyPage(random) }),
  observeMarketsData: ({ marketId }) => ({ marketIds: [marketId] }),
  listAssets: (_, random) => ({ pagination: anyPage(random) }),
  getAsset: ({ assetId }) => ({ assetId }),
  listTrades: ({ marketId, partyId }, random) => {
    const selection = random.pick([{}, { marketIds: [marketId] }, { partyIds: [partyId] }, { orderIds: ["a"] }]);
    return { ...selection, pagination: anyPage(random), ...anyRange(random) };
  },
  getLastTrade: ({ marketId }) => ({ marketId }),
  observeTrades: ({ marketId, partyId }) => ({ marketIds: [marketId], partyIds: [partyId] }),
  listCandleIntervals: ({ marketId }) => ({ marketId }),
  listCandleData: ({ marketId }, random) => {
    return { candleId: candleIdOf(marketId), fromTimestamp: 1n, pagination: anyPage(random) };
  },
  observeCandleData: ({ marketId }) => ({ candleId: candleIdOf(marketId) }),
  listAccounts: ({ partyId }, random) => {
    return { filter: { partyIds: [partyId] }, pagination: anyPage(random), asOf: BigInt(random.below(3)) };
  },
  listBalanceChanges: ({ assetId }, random) => {
    return { filter: { assetId }, pagination: anyPage(random), ...anyRange(random) };
  },
};

const ofHistory: Requests<typeof MarketHistoryService.method> = {
  getMarketDepthAt: ({ marketId }) => ({ marketId, blockHeight: 100n }),
  listMarketDepthChanges: ({ marketId }) => ({ marketId }),
  replayMarketsDepth: ({ marketId }) => ({ marketIds: [marketId] }),
};

/** Makes the request of one method. */
type Maker = (ids: Identifiers, random: Random) => Operation;

const endless: ReadonlySet<string> = new Set([
  "ObserveMarketsDepthUpdates",
  "ObserveMarketsData",
  "ObserveTrades",
  "ObserveCandleData",
  "ReplayMarketsDepth",
]);

function makers<Methods extends Record<string, DescMethod>>(
  methods: Methods,
  requests: { readonly [Name in keyof Methods]: (ids: Identifiers, random: Random) => object },
): Maker[] {
  return Object.entries(methods).map(([name, method]) => {
    return (ids, random) => {
      const init = requests[name as keyof Methods](ids, random) as MessageInitShape<DescMessage>;
      const request: Message = create(method.input, init);
      return {
        url: urlOf(method, request),
        path: `/${method.parent.typeName}/${method.name}`,
        json: toJsonString(method.input, request),
        binary: Buffer.from(toBinary(method.input, request)),
        isEndless: endless.has(method.name),
      };
    };
  });
}

const all = [...makers(TradingDataService.method, ofTradingData), ...makers(MarketHistoryService.method, ofHistory)];

/** A request of some method. */
export function anyOperation(ids: Identifiers, random: Random): Operation {
  return random.pick(all)(ids, random);
}
