import { create, fromBinary, toJsonString } from "@bufbuild/protobuf";
import { AggregatedLedgerEntrySchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { type BusEvent, BusEventSchema, type ERC20MultiSigSignerRemoved } from "../../gen/vega/events/v1/events_pb.js";
import { MarketSchema } from "../../gen/vega/markets_pb.js";
import {
  type AccountDetails,
  FeeSchema,
  MarketDataSchema,
  type Order,
  Order_Status,
  Order_TimeInForce,
  Order_Type,
  type Trade,
  TradeSchema,
} from "../../gen/vega/vega_pb.js";
import { Book, orderedDigest, type Side } from "./book.js";
import { digestOf } from "./digest.js";
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
  /** Ledger rows up to its end. */
  readonly rows: number;
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
  readonly rows: LedgerRow[] = [];
  /** Places in `rows` of each party's entries, in order. */
  readonly rowsOfParty = new Map<string, number[]>();
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

  /** Applies the frames of whole blocks: `u32` length, `u64` stream sequence number, `BusEvent`. */
  apply(frames: Uint8Array): void {
    const view = new DataView(frames.buffer, frames.byteOffset, frames.byteLength);
    for (let at = 0; at < frames.byteLength; ) {
      const length = view.getUint32(at);
      const sequence = view.getBigUint64(at + 4);
      this.#event(fromBinary(BusEventSchema, frames.subarray(at + 12, at + 4 + length)), sequence);
      at += 4 + length;
    }
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
      case "trade": {
        const text = tradeText(event.value, this.#timeNs);
        const { lastTrade } = this.#market(event.value.marketId);
        this.#pending.push(() => lastTrade.set(this.#height, text));
        break;
      }
      case "order":
        this.#order(event.value, n);
        break;
      case "expiredOrders":
        this.#expire(event.value.marketId, event.value.orderIds, n);
        break;
      case "ledgerMovements":
        for (const { entries } of event.value.ledgerMovements) {
          for (const entry of entries) {
            this.#row({
              timeNs: this.#timeNs,
              from: this.#account(entry.fromAccount),
              to: this.#account(entry.toAccount),
              type: entry.type,
              quantity: entry.amount,
              fromBalance: entry.fromAccountBalance,
              toBalance: entry.toAccountBalance,
            });
          }
        }
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
    this.blocks.push({ height: this.#height, timeNs: this.#timeNs, sequence, rows: this.rows.length });
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

  #row(row: LedgerRow): void {
    const place = this.rows.push(row) - 1;
    for (const party of new Set([row.from.party, row.to.party])) {
      const places = this.rowsOfParty.get(party);
      if (places === undefined) this.rowsOfParty.set(party, [place]);
      else places.push(place);
    }
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
export function rowText(row: LedgerRow): string {
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
export function rowDigest(row: LedgerRow): string {
  return digestOf(rowText(row));
}
