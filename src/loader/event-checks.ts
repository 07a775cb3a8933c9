import type { Asset } from "../../gen/vega/assets_pb.js";
import type { NodeSignature } from "../../gen/vega/commands/v1/validator_commands_pb.js";
import type { ERC20MultiSigSignerRemoved } from "../../gen/vega/events/v1/events_pb.js";
import type { Instrument, Market } from "../../gen/vega/markets_pb.js";
import {
  type Fee,
  FeeSchema,
  type MarketData,
  MarketDataSchema,
  type Order,
  type PriceMonitoringBounds,
  type Trade,
} from "../../gen/vega/vega_pb.js";
import {
  assetDecimalsMax,
  checkFraction,
  checkId,
  checkQuantity,
  checkTexts,
  checkUint64,
  decimalsMax,
  fieldError,
  isQuantity,
  requireId,
  requireQuantity,
  requireTime,
} from "./field-checks.js";

/*
 * Checks of event fields before they are stored (docs/events.md). Enums are open: unknown numbers are kept. Each check
 * throws a RecordingError that names the kind of the event, the field and the value.
 */

/** The longest signature, in bytes. */
export const signatureBytesMax = 1_024;

/** Quantities of market data; empty if the network did not state one. */
const marketDataQuantities = [
  "markPrice",
  "bestBidPrice",
  "bestOfferPrice",
  "bestStaticBidPrice",
  "bestStaticOfferPrice",
  "midPrice",
  "staticMidPrice",
  "indicativePrice",
  "targetStake",
  "suppliedStake",
  "marketValueProxy",
  "lastTradedPrice",
] as const satisfies readonly (keyof MarketData)[];

const feeParts = ["makerFee", "infrastructureFee", "liquidityFee"] as const satisfies readonly (keyof Fee)[];

/** A trade. Parties and orders are optional. */
export function checkTrade(trade: Trade): void {
  requireId("trade.market_id", trade.marketId);
  requireId("trade.id", trade.id);
  requireQuantity("trade.price", trade.price);
  checkId("trade.buyer", trade.buyer);
  checkId("trade.seller", trade.seller);
  checkId("trade.buy_order", trade.buyOrder);
  checkId("trade.sell_order", trade.sellOrder);
  checkFee("trade.buyer_fee", trade.buyerFee);
  checkFee("trade.seller_fee", trade.sellerFee);
}

function checkFee(field: string, fee: Fee | undefined): void {
  if (fee === undefined) return;
  for (const part of feeParts) {
    if (!isQuantity(fee[part])) checkQuantity(`${field}.${FeeSchema.field[part].name}`, fee[part]);
  }
}

/** Market data. Its times are the network's own: before a market opens they can be any number. */
export function checkMarketData(data: MarketData): void {
  requireId("market_data.market", data.market);
  for (const name of marketDataQuantities) {
    // The name is created only for errors, because there are a dozen checks for every event.
    if (!isQuantity(data[name])) checkQuantity(`market_data.${MarketDataSchema.field[name].name}`, data[name]);
  }
  for (const bounds of data.priceMonitoringBounds) checkBounds("market_data.price_monitoring_bounds", bounds);
  for (const share of data.liquidityProviderFeeShare) {
    const field = "market_data.liquidity_provider_fee_share";
    checkId(`${field}.party`, share.party);
    checkFraction(`${field}.equity_like_share`, share.equityLikeShare);
    checkFraction(`${field}.average_entry_valuation`, share.averageEntryValuation);
    checkFraction(`${field}.average_score`, share.averageScore);
  }
}

function checkBounds(field: string, bounds: PriceMonitoringBounds): void {
  checkQuantity(`${field}.min_valid_price`, bounds.minValidPrice);
  checkQuantity(`${field}.max_valid_price`, bounds.maxValidPrice);
  checkFraction(`${field}.reference_price`, bounds.referencePrice);
  checkFraction(`${field}.trigger.probability`, bounds.trigger?.probability ?? "");
}

/** An asset. */
export function checkAsset({ id, details }: Asset): void {
  requireId("asset.id", id);
  if (details === undefined) return;
  const { name, symbol, decimals, quantum, source } = details;
  checkTexts({ "asset.details.name": name, "asset.details.symbol": symbol });
  if (decimals > assetDecimalsMax)
    throw fieldError("asset.details.decimals", `${decimals}`, `0 to ${assetDecimalsMax}`);
  checkFraction("asset.details.quantum", quantum);
  if (source.case === "builtinAsset") {
    checkQuantity("asset.details.builtin_asset.max_faucet_amount_mint", source.value.maxFaucetAmountMint);
  }
  if (source.case !== "erc20") return;
  checkId("asset.details.erc20.contract_address", source.value.contractAddress);
  checkQuantity("asset.details.erc20.lifetime_limit", source.value.lifetimeLimit);
  checkQuantity("asset.details.erc20.withdraw_threshold", source.value.withdrawThreshold);
}

/** A market. `kind` is that of the event. */
export function checkMarket(kind: string, market: Market): void {
  requireId(`${kind}.id`, market.id);
  const { decimalPlaces, positionDecimalPlaces } = market;
  if (decimalPlaces > decimalsMax)
    throw fieldError(`${kind}.decimal_places`, `${decimalPlaces}`, `0 to ${decimalsMax}`);
  if (positionDecimalPlaces > decimalsMax || positionDecimalPlaces < -decimalsMax) {
    const takes = `-${decimalsMax} to ${decimalsMax}`;
    throw fieldError(`${kind}.position_decimal_places`, `${positionDecimalPlaces}`, takes);
  }
  checkInstrument(`${kind}.tradable_instrument.instrument`, market.tradableInstrument?.instrument);
  checkFraction(`${kind}.lp_price_range`, market.lpPriceRange);
  checkFraction(`${kind}.linear_slippage_factor`, market.linearSlippageFactor);
  checkFraction(`${kind}.quadratic_slippage_factor`, market.quadraticSlippageFactor);
  const factors = market.fees?.factors;
  checkFraction(`${kind}.fees.factors.maker_fee`, factors?.makerFee ?? "");
  checkFraction(`${kind}.fees.factors.infrastructure_fee`, factors?.infrastructureFee ?? "");
  checkFraction(`${kind}.fees.factors.liquidity_fee`, factors?.liquidityFee ?? "");
  const liquidity = market.liquidityMonitoringParameters;
  checkFraction(`${kind}.liquidity_monitoring_parameters.triggering_ratio`, liquidity?.triggeringRatio ?? "");
  for (const trigger of market.priceMonitoringSettings?.parameters?.triggers ?? []) {
    checkFraction(`${kind}.price_monitoring_settings.parameters.triggers.probability`, trigger.probability);
  }
}

function checkInstrument(field: string, instrument: Instrument | undefined): void {
  if (instrument === undefined) return;
  const { id, code, name, product, metadata } = instrument;
  const quoteName = product.case === "future" ? product.value.quoteName : "";
  const texts = { [`${field}.id`]: id, [`${field}.code`]: code, [`${field}.name`]: name };
  checkTexts({ ...texts, [`${field}.future.quote_name`]: quoteName }, `${field}.metadata.tags`, metadata?.tags ?? []);
  if (product.case === "future") checkId(`${field}.future.settlement_asset`, product.value.settlementAsset);
}

/** An order. Its price is optional. */
export function checkOrder(order: Order): void {
  requireId("order.market_id", order.marketId);
  requireId("order.id", order.id);
  checkQuantity("order.price", order.price);
}

/** A signer removal. */
export function checkSignerRemoved(event: ERC20MultiSigSignerRemoved): void {
  const kind = "erc20_multisig_signer_removed";
  checkId(`${kind}.validator_id`, event.validatorId);
  checkId(`${kind}.old_signer`, event.oldSigner);
  checkQuantity(`${kind}.nonce`, event.nonce);
  checkUint64(`${kind}.epoch_seq`, event.epochSeq);
  requireTime(`${kind}.timestamp`, event.timestamp);
  for (const { signatureId, submitter } of event.signatureSubmitters) {
    requireId(`${kind}.signature_submitters.signature_id`, signatureId);
    checkId(`${kind}.signature_submitters.submitter`, submitter);
  }
}

/** A node's signature. */
export function checkNodeSignature({ id, sig }: NodeSignature): void {
  requireId("node_signature.id", id);
  if (sig.length <= signatureBytesMax) return;
  throw fieldError("node_signature.sig", `${sig.length} bytes`, `at most ${signatureBytesMax} bytes`);
}
