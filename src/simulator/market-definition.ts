import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Condition_Operator, PropertyKey_Type } from "../../gen/vega/data/v1/spec_pb.js";
import { DataSourceSpec_Status, type DataSourceSpecSchema } from "../../gen/vega/data_source_pb.js";
import {
  type Market,
  Market_State,
  Market_TradingMode,
  MarketSchema,
  type TradableInstrumentSchema,
} from "../../gen/vega/markets_pb.js";
import type { Asset } from "./asset.js";
import type { Listing, MarketKind } from "./market-kind.js";
import type { Random } from "./random.js";

type DataSource = MessageInitShape<typeof DataSourceSpecSchema>;

const second = 1_000_000_000n;
const day = 86_400n * second;

/** Fee factors in hundredths of a percent. */
export const feeBasisPoints = { maker: 2n, infrastructure: 5n, liquidity: 10n } as const;

/** @throws RangeError at a fee factor of 1 or more */
function factor(basisPoints: bigint): string {
  if (basisPoints >= 10_000n) throw new RangeError("a fee factor is below 1");
  return `0.${String(basisPoints).padStart(4, "0")}`;
}

function externalOracle(random: Random, timeNs: bigint, property: string, type: PropertyKey_Type): DataSource {
  const isPrice = type === PropertyKey_Type.INTEGER;
  return {
    id: random.identifier(),
    createdAt: timeNs,
    updatedAt: timeNs + second,
    status: DataSourceSpec_Status.ACTIVE,
    data: {
      sourceType: {
        case: "external",
        value: {
          sourceType: {
            case: "oracle",
            value: {
              signers: [
                { signer: { case: "pubKey", value: { key: random.identifier() } } },
                { signer: { case: "ethAddress", value: { address: `0x${random.hex(20)}` } } },
              ],
              filters: [
                {
                  key: isPrice ? { name: property, type, numberDecimalPlaces: 18n } : { name: property, type },
                  conditions: isPrice
                    ? [{ operator: Condition_Operator.GREATER_THAN_OR_EQUAL, value: "0" }]
                    : [{ operator: Condition_Operator.EQUALS, value: "true" }],
                },
              ],
            },
          },
        },
      },
    },
  };
}

function internalTime(random: Random, timeNs: bigint): DataSource {
  const end = (timeNs + 365n * day) / second;
  return {
    id: random.identifier(),
    createdAt: timeNs,
    updatedAt: timeNs + second,
    status: DataSourceSpec_Status.ACTIVE,
    data: {
      sourceType: {
        case: "internal",
        value: {
          sourceType: {
            case: "time",
            value: { conditions: [{ operator: Condition_Operator.GREATER_THAN_OR_EQUAL, value: end.toString() }] },
          },
        },
      },
    },
  };
}

function riskModel(index: number) {
  if (index % 2 === 0) {
    return {
      case: "logNormalRiskModel" as const,
      value: {
        riskAversionParameter: 0.000001,
        tau: 0.000114077116130504,
        params: { mu: 0.05, r: 0.016, sigma: 1.25 },
      },
    };
  }
  return {
    case: "simpleRiskModel" as const,
    value: {
      params: { factorLong: 0.15, factorShort: 0.25, maxMoveUp: 10, minMoveDown: -5, probabilityOfTrading: 0.1 },
    },
  };
}

function tradableInstrument(
  random: Random,
  index: number,
  { base, code, name }: Listing,
  asset: Asset,
  timeNs: bigint,
): MessageInitShape<typeof TradableInstrumentSchema> {
  const price = `prices.${base}.value`;
  const terminated = `trading.${base}.terminated`;
  const byTime = index % 2 === 1;
  return {
    instrument: {
      id: random.identifier(),
      code,
      name,
      metadata: { tags: [`base:${base}`, `quote:${asset.symbol}`, "class:simulated", "product:futures"] },
      product: {
        case: "future",
        value: {
          settlementAsset: asset.id,
          quoteName: asset.symbol,
          dataSourceSpecForSettlementData: externalOracle(random, timeNs, price, PropertyKey_Type.INTEGER),
          dataSourceSpecForTradingTermination: byTime
            ? internalTime(random, timeNs)
            : externalOracle(random, timeNs, terminated, PropertyKey_Type.BOOLEAN),
          dataSourceSpecBinding: {
            settlementDataProperty: price,
            tradingTerminationProperty: byTime ? "vegaprotocol.builtin.timestamp" : terminated,
          },
        },
      },
    },
    marginCalculator: { scalingFactors: { searchLevel: 1.1, initialMargin: 1.5, collateralRelease: 1.75 } },
    riskModel: riskModel(index),
  };
}

/** A market as it is first announced, with all its fields set. */
export function marketDefinition(
  random: Random,
  id: string,
  index: number,
  { listing, asset }: Pick<MarketKind, "listing" | "asset">,
  timeNs: bigint,
): Market {
  return create(MarketSchema, {
    id,
    tradableInstrument: tradableInstrument(random, index, listing, asset, timeNs),
    decimalPlaces: BigInt(listing.decimalPlaces),
    fees: {
      factors: {
        makerFee: factor(feeBasisPoints.maker),
        infrastructureFee: factor(feeBasisPoints.infrastructure),
        liquidityFee: factor(feeBasisPoints.liquidity),
      },
    },
    openingAuction: { duration: 5n, volume: 10n },
    priceMonitoringSettings: {
      parameters: {
        triggers: [
          { horizon: 3_600n, probability: "0.9999", auctionExtension: 120n },
          { horizon: 14_400n, probability: "0.9999", auctionExtension: 180n },
        ],
      },
    },
    liquidityMonitoringParameters: {
      targetStakeParameters: { timeWindow: 3_600n, scalingFactor: 1.5 },
      triggeringRatio: "0.7",
      auctionExtension: 1n,
    },
    tradingMode: Market_TradingMode.NO_TRADING,
    state: Market_State.PROPOSED,
    marketTimestamps: {
      proposed: timeNs,
      pending: timeNs + second,
      open: timeNs + 5n * second,
      close: timeNs + 365n * day,
    },
    positionDecimalPlaces: BigInt(listing.positionDecimalPlaces),
    lpPriceRange: "0.5",
    linearSlippageFactor: "0.001",
    quadraticSlippageFactor: "0.0005",
  });
}
