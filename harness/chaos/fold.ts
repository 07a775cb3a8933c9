import { create, fromBinary, toJsonString } from "@bufbuild/protobuf";
import { AggregatedLedgerEntrySchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { type Asset, AssetSchema } from "../../gen/vega/assets_pb.js";
import { type BusEvent, BusEventSchema, type ERC20MultiSigSignerRemoved } from "../../gen/vega/events/v1/events_pb.js";
import { MarketSchema } from "../../gen/vega/markets_pb.js";
import {
  type AccountDetails,
  FeeSchema,
  type LedgerEntry,
  MarketDataSchema,
  type Order,
  Order_Status,
  Order_TimeInForce,
  Order_Type,
  type Trade,
  TradeSchema,
} from "../../gen/vega/vega_pb.js";
import { framesOf } from "../support/frames.js";
import { BalanceFold } from "./balance-fold.js";
import { Book, orderedDigest, type Side } from "./book.js";
import { type CandleInterval, CandleSeries, candlePeriodsNs, type FoldedTrade } from "./candle-fold.js";
import { digestOf } from "./digest.js";
import { GrowingList } from "./growing-list.js";
import { History } from "./history.js";

/** The `maxDepth` that the clients ask for where they ask for one. */
export const shortDepth = 3;

/** What a depth response of one market says at the end of a block. */
export interface DepthState {
  readonly sequence: bigint;
  readonly published: bigint;
  /** Digests of the levels in order: all of them, and those of {@link shortDepth}. */
  readonly whole: string;
  readonly short: string;
}

/** All that was ever true of one market. */
export interface MarketHistory {
  readonly definition: History<string>;
  readonly data: History<string>;
  readonly depth: History<DepthState>;
  readonly lastTrade: History<string>;
  /** The book of each published update, by its sequence number. */
  readonly publishedBooks: Map<bigint, string>;
  /** The block of each published update, by its sequence number. */
  readonly publishedAt: Map<bigint, number>;
  /** Heights at which a definition had other decimals than the one before. */
  readonly redefinedAt: number[];
}

export interface Account {
  readonly asset: string;
  /** `network` where the event names no owner. */
  readonly party: string;
  /** Empty: none. */
  readonly market: string;
  readonly type: number;
}

export interface LedgerRow {
  readonly timeNs: bigint;
  readonly from: Account;
  readonly to: Account;
  readonly type: number;
  readonly quantity: string;
  readonly fromBalance: string;
  readonly toBalance: string;
}

export interface Bundle {
  readonly id: string;
  readonly timeNs: bigint;
  readonly height: number;
  readonly fields: { oldSigner: string; submitter: string; nonce: string; epochSeq: string };
  /** `0x` and the hexadecimal of all signatures. */
  readonly signatures: History<string>;
}

/** A whole block of the stream. */
export interface FoldedBlock {
  readonly height: number;
  readonly timeNs: bigint;
  /** Stream sequence number of its `end_block`. */
  readonly sequence: bigint;
}

interface LiveOrder {
  readonly marketId: string;
  readonly side: Side;
  readonly price: string;
  readonly remaining: bigint;
}

interface OpenMarket {
  readonly book: Book;
  sequence: bigint;
  published: bigint;
  moved: boolean;
  /** The book when the block began. */
  before: string;
}

/**
 * The judge's own fold of the network's events, written from docs/events.md and sharing no code with the loader. It
 * keeps what was true at the end of every block, so that a response can be held against the block it speaks of.
 */
export class Fold {
  readonly markets = new Map<string, MarketHistory>();
  readonly assets = new Map<string, History<string>>();
  /** By party. */
  readonly rows = new GrowingList(rowDigest);
  readonly balances = new BalanceFold();
  /** By market, and by party. */
  readonly trades = new GrowingList<FoldedTrade>(({ digest }) => digest);
  readonly #candles = new Map<string, CandleSeries>();
  readonly bundles: Bundle[] = [];
  readonly blocks: FoldedBlock[] = [];
  readonly #open = new Map<string, OpenMarket>();
  /** Of prices and sizes, by market. */
  readonly #decimals = new Map<string, string>();
  readonly #orders = new Map<string, LiveOrder>();
  readonly #accounts = new Map<string, Account>();
  readonly #signatures = new Map<string, Set<string>>();
  #height = 0;
  #timeNs = 0n;
  /** What the open block says of markets: the last one counts, at its end. */
  #pending: (() => void)[] = [];

  /** Of the newest whole block; 0 before the first. */
  get height(): number {
    return this.blocks.length;
  }

  block(height: number): FoldedBlock | undefined {
    return this.blocks[height - 1];
  }

  /** The candles of a market, as far as there are whole blocks. */
  candles(marketId: string, interval: CandleInterval): CandleSeries {
    const key = `${interval} ${marketId}`;
    const series = this.#candles.get(key) ?? new CandleSeries(this.trades, marketId, candlePeriodsNs[interval]);
    this.#candles.set(key, series);
    return series.foldTo(this.height);
  }

  /** The newest block up to `height` that is not after a time; 0: there is none. */
  heightAt(timeNs: bigint, height = this.height): number {
    return this.blocks.findLastIndex((block) => block.height <= height && block.timeNs <= timeNs) + 1;
  }

  /** Applies the frames of whole blocks. */
  apply(frames: Uint8Array): void {
    for (const { sequence, body } of framesOf(frames)) this.#event(fromBinary(BusEventSchema, body), sequence);
  }

  #event({ id, event }: BusEvent, sequence: bigint): void {
    const n = BigInt(id.slice(id.indexOf("-") + 1));
    switch (event.case) {
      case "beginBlock":
        this.#height = Number(event.value.height);
        this.#timeNs = event.value.timestamp;
        break;
      case "endBlock":
        this.#end(sequence);
        break;
      case "marketCreated":
      case "marketUpdated": {
        const text = toJsonString(MarketSchema, event.value);
        const decimals = `${event.value.decimalPlaces} ${event.value.positionDecimalPlaces}`;
        const { definition, redefinedAt } = this.#market(event.value.id);
        const before = this.#decimals.get(event.value.id);
        this.#decimals.set(event.value.id, decimals);
        if (before !== undefined && before !== decimals) redefinedAt.push(this.#height);
        this.#pending.push(() => definition.set(this.#height, text));
        break;
      }
      case "marketData": {
        event.value.timestamp = this.#timeNs;
        const text = toJsonString(MarketDataSchema, event.value);
        const { data } = this.#market(event.value.market);
        this.#pending.push(() => data.set(this.#height, text));
        break;
      }
      case "asset":
        this.#asset(event.value);
        break;
      case "trade":
        this.#trade(event.value);
        break;
      case "order":
        this.#order(event.value, n);
        break;
      case "expiredOrders":
        this.#expire(event.value.marketId, event.value.orderIds, n);
        break;
      case "ledgerMovements":
        for (const { entries } of event.value.ledgerMovements) for (const entry of entries) this.#entry(entry);
        break;
      case "erc20MultisigSignerRemoved":
        this.#signerRemoved(event.value);
        break;
      case "nodeSignature": {
        const known = this.#signatures.get(event.value.id) ?? new Set<string>();
        known.add(Buffer.from(event.value.sig).toString("hex"));
        this.#signatures.set(event.value.id, known);
        this.#sign(event.value.id);
        break;
      }
      default:
    }
  }

  #asset(asset: Asset): void {
    const text = toJsonString(AssetSchema, asset);
    const history = this.assets.get(asset.id) ?? new History<string>();
    this.assets.set(asset.id, history);
    this.#pending.push(() => history.set(this.#height, text));
  }

  #trade(trade: Trade): void {
    const text = tradeText(trade, this.#timeNs);
    const { marketId, buyer, seller, price, size } = trade;
    const { lastTrade } = this.#market(marketId);
    this.#pending.push(() => lastTrade.set(this.#height, text));
    const scale = this.#decimals.get(marketId) ?? "";
    const folded = { height: this.#height, timeNs: this.#timeNs, price, size, scale, digest: digestOf(text) };
    this.trades.add(folded, new Set([marketId, buyer, seller]));
  }

  #signerRemoved(event: ERC20MultiSigSignerRemoved): void {
    const { oldSigner, nonce, epochSeq, timestamp } = event;
    for (const { signatureId, submitter } of event.signatureSubmitters) {
      if (this.bundles.some((bundle) => bundle.id === signatureId)) continue;
      this.bundles.push({
        id: signatureId,
        timeNs: timestamp,
        height: this.#height,
        fields: { oldSigner: oldSigner.toLowerCase(), submitter: submitter.toLowerCase(), nonce, epochSeq },
        signatures: new History(),
      });
      this.#sign(signatureId);
    }
  }

  #end(sequence: bigint): void {
    for (const apply of this.#pending) apply();
    this.#pending = [];
    for (const [marketId, open] of this.#open) {
      const changed = open.book.digest !== open.before;
      if (!changed && !open.moved) continue;
      if (changed) {
        // A reader takes an update only if its number is above the one that it holds.
        if (open.sequence <= open.published) open.sequence = open.published + 1n;
        open.published = open.sequence;
      }
      const { buy, sell } = open.book.best(Number.POSITIVE_INFINITY);
      const history = this.#market(marketId);
      history.depth.set(this.#height, {
        sequence: open.sequence,
        published: open.published,
        whole: orderedDigest(buy, sell),
        short: orderedDigest(buy.slice(0, shortDepth), sell.slice(0, shortDepth)),
      });
      if (changed) {
        history.publishedBooks.set(open.published, open.book.digest);
        history.publishedAt.set(open.published, this.#height);
      }
      open.before = open.book.digest;
      open.moved = false;
    }
    this.rows.endBlock();
    this.trades.endBlock();
    this.balances.endBlock(this.#height, this.#timeNs);
    this.blocks.push({ height: this.#height, timeNs: this.#timeNs, sequence });
    if (this.#height !== this.blocks.length) throw new Error("the judge takes networks whose heights begin with 1");
  }

  #market(marketId: string): MarketHistory {
    let market = this.markets.get(marketId);
    if (market === undefined) {
      market = {
        definition: new History(),
        data: new History(),
        depth: new History(),
        lastTrade: new History(),
        publishedBooks: new Map(),
        publishedAt: new Map(),
        redefinedAt: [],
      };
      this.markets.set(marketId, market);
    }
    return market;
  }

  #openMarket(marketId: string): OpenMarket {
    let open = this.#open.get(marketId);
    if (open === undefined) {
      const book = new Book();
      open = { book, sequence: 0n, published: 0n, moved: false, before: book.digest };
      this.#open.set(marketId, open);
    }
    return open;
  }

  /** Moves a market's sequence number: the block time floored to the microsecond, plus the event's number. */
  #number(marketId: string, n: bigint): void {
    const open = this.#openMarket(marketId);
    const number = this.#timeNs - (this.#timeNs % 1000n) + n;
    if (number > open.sequence) open.sequence = number;
    open.moved = true;
  }

  #order(order: Order, n: bigint): void {
    if (order.type === Order_Type.MARKET || order.status === Order_Status.UNSPECIFIED) return;
    if (order.timeInForce === Order_TimeInForce.FOK || order.timeInForce === Order_TimeInForce.IOC) return;
    this.#number(order.marketId, n);
    const known = this.#orders.get(order.id);
    if (known !== undefined) this.#leave(order.id, known);
    const price = order.price.replace(/^0+/, "");
    if (order.status !== Order_Status.ACTIVE || order.remaining === 0n || price === "") return;
    if (order.side !== 1 && order.side !== 2) return;
    const live = { marketId: order.marketId, side: order.side, price, remaining: order.remaining } as const;
    this.#orders.set(order.id, live);
    this.#addToLevel(live, live.remaining, 1n);
  }

  #expire(marketId: string, orderIds: readonly string[], n: bigint): void {
    let number = n;
    for (const id of [...orderIds].sort((a, b) => (a < b ? -1 : 1))) {
      const live = this.#orders.get(id);
      if (live === undefined || live.marketId !== marketId) continue;
      this.#number(marketId, number);
      number += 1n;
      this.#leave(id, live);
    }
  }

  #leave(id: string, live: LiveOrder): void {
    this.#orders.delete(id);
    this.#addToLevel(live, -live.remaining, -1n);
  }

  #addToLevel({ marketId, side, price }: LiveOrder, volume: bigint, orders: bigint): void {
    const { book } = this.#openMarket(marketId);
    const level = book.get(side, price) ?? { price, volume: 0n, orders: 0n };
    book.set(side, { price, volume: level.volume + volume, orders: level.orders + orders });
  }

  #account(details: AccountDetails | undefined): Account {
    const account = {
      asset: details?.assetId ?? "",
      party: details?.owner ?? "network",
      market: details?.marketId ?? "",
      type: details?.type ?? 0,
    };
    const key = JSON.stringify(account);
    const known = this.#accounts.get(key);
    if (known === undefined) this.#accounts.set(key, account);
    return known ?? account;
  }

  #entry({ fromAccount, toAccount, type, amount, fromAccountBalance, toAccountBalance }: LedgerEntry): void {
    const [from, to] = [this.#account(fromAccount), this.#account(toAccount)];
    const balances = { fromBalance: fromAccountBalance, toBalance: toAccountBalance };
    const row = { timeNs: this.#timeNs, from, to, type, quantity: amount, ...balances };
    this.rows.add(row, new Set([from.party, to.party]));
    // Of an account with itself, what it receives comes last.
    this.balances.state(from, row.fromBalance, this.#height);
    this.balances.state(to, row.toBalance, this.#height);
  }

  #sign(id: string): void {
    const bundle = this.bundles.find((each) => each.id === id);
    if (bundle === undefined) return;
    const signatures = [...(this.#signatures.get(id) ?? [])].sort();
    bundle.signatures.set(this.#height, signatures.length === 0 ? "" : `0x${signatures.join("")}`);
  }
}

/** A trade as depth responses show it. */
function tradeText(trade: Trade, timeNs: bigint): string {
  const none = () => create(FeeSchema, { makerFee: "0", infrastructureFee: "0", liquidityFee: "0" });
  trade.timestamp = timeNs;
  trade.buyerFee ??= none();
  trade.sellerFee ??= none();
  return toJsonString(TradeSchema, trade);
}

/** A row as the ledger list shows it. */
function rowText(row: LedgerRow): string {
  const { from, to } = row;
  return toJsonString(
    AggregatedLedgerEntrySchema,
    create(AggregatedLedgerEntrySchema, {
      timestamp: row.timeNs,
      quantity: row.quantity,
      transferType: row.type,
      assetId: from.asset,
      fromAccountType: from.type,
      toAccountType: to.type,
      fromAccountPartyId: from.party,
      toAccountPartyId: to.party,
      ...(from.market === "" ? {} : { fromAccountMarketId: from.market }),
      ...(to.market === "" ? {} : { toAccountMarketId: to.market }),
      fromAccountBalance: row.fromBalance,
      toAccountBalance: row.toBalance,
    }),
  );
}

/** A digest of a row's text. */
function rowDigest(row: LedgerRow): string {
  return digestOf(rowText(row));
}
