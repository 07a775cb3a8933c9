import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { VenueBusEventSchema, type VenueEventSchema } from "../../gen/marketd/events/v1/venue_pb.js";
import { AssetSchema } from "../../gen/vega/assets_pb.js";
import { NodeSignatureSchema } from "../../gen/vega/commands/v1/validator_commands_pb.js";
import {
  type BusEvent,
  BusEventSchema,
  BusEventType,
  ERC20MultiSigSignerRemovedSchema,
} from "../../gen/vega/events/v1/events_pb.js";
import { MarketSchema } from "../../gen/vega/markets_pb.js";
import {
  type AccountDetailsSchema,
  AccountType,
  LedgerMovementSchema,
  MarketDataSchema,
  Order_Status,
  Order_TimeInForce,
  Order_Type,
  OrderSchema,
  Side,
  TradeSchema,
  TransferType,
} from "../../gen/vega/vega_pb.js";

type EventInit = NonNullable<MessageInitShape<typeof BusEventSchema>["event"]>;
type VenueEventInit = NonNullable<MessageInitShape<typeof VenueEventSchema>["event"]>;

/** One ledger entry for {@link RecordingBuilder.transfer}; whatever is left out has a plain value. */
export interface TransferInit {
  readonly from?: MessageInitShape<typeof AccountDetailsSchema>;
  readonly to?: MessageInitShape<typeof AccountDetailsSchema>;
  readonly amount?: string;
  readonly type?: TransferType;
  readonly fromBalance?: string;
  readonly toBalance?: string;
}

/**
 * Makes recordings by hand: events become frames with rising stream sequence numbers and ids that count in each block.
 *
 *     new RecordingBuilder().block(1, 10n, (r) => r.market("m").order({ id: "a", marketId: "m", price: "5" })).bytes()
 */
export class RecordingBuilder {
  chainId = "test-chain";
  /** Of the next frame. */
  sequence = 1n;
  readonly frames: Buffer[] = [];
  #height = 0n;
  #n = 0;

  /** All frames so far. */
  bytes(): Buffer {
    return Buffer.concat(this.frames);
  }

  /** A whole block with what `fill` adds to it. */
  block(height: number | bigint, timeNs: bigint, fill: (recording: this) => unknown = () => {}): this {
    this.begin(height, timeNs);
    fill(this);
    return this.end();
  }

  begin(height: number | bigint, timeNs: bigint): this {
    this.#height = BigInt(height);
    this.#n = 0;
    return this.event(
      { case: "beginBlock", value: { height: this.#height, timestamp: timeNs, hash: "ab" } },
      BusEventType.BEGIN_BLOCK,
    );
  }

  end(height: number | bigint = this.#height): this {
    return this.event({ case: "endBlock", value: { height: BigInt(height) } }, BusEventType.END_BLOCK);
  }

  /** Any event. */
  event(
    event: EventInit,
    type: BusEventType = BusEventType.UNSPECIFIED,
    more: Partial<Pick<BusEvent, "id" | "chainId">> = {},
  ): this {
    this.#n++;
    const message = create(BusEventSchema, {
      id: `${this.#height}-${this.#n}`,
      block: "AB",
      type,
      version: 1,
      chainId: this.chainId,
      event,
      ...more,
    });
    return this.frame(toBinary(BusEventSchema, message));
  }

  /** An event of a venue. */
  venue(event: VenueEventInit): this {
    const id = `${this.#height}-${++this.#n}`;
    const message = create(VenueBusEventSchema, {
      ...{ id, chainId: this.chainId },
      event: { case: "venueEvent", value: { event } },
    });
    return this.frame(toBinary(VenueBusEventSchema, message));
  }

  /** A frame with any content. */
  frame(body: Uint8Array): this {
    const head = Buffer.alloc(12);
    head.writeUInt32BE(body.length + 8);
    head.writeBigUInt64BE(this.sequence++, 4);
    this.frames.push(Buffer.concat([head, body]));
    return this;
  }

  market(id: string, init: MessageInitShape<typeof MarketSchema> = {}): this {
    return this.event(
      { case: "marketCreated", value: create(MarketSchema, { ...init, id }) },
      BusEventType.MARKET_CREATED,
    );
  }

  asset(id: string, init: MessageInitShape<typeof AssetSchema> = {}): this {
    return this.event({ case: "asset", value: create(AssetSchema, { ...init, id }) }, BusEventType.ASSET);
  }

  /** An active limit order, good till cancelled, to buy 1 at price 100, unless told otherwise. */
  order(init: MessageInitShape<typeof OrderSchema>): this {
    const value = create(OrderSchema, {
      side: Side.BUY,
      price: "100",
      size: 1n,
      remaining: 1n,
      timeInForce: Order_TimeInForce.GTC,
      type: Order_Type.LIMIT,
      status: Order_Status.ACTIVE,
      ...init,
    });
    return this.event({ case: "order", value }, BusEventType.ORDER);
  }

  expire(marketId: string, ...orderIds: string[]): this {
    return this.event({ case: "expiredOrders", value: { marketId, orderIds } }, BusEventType.EXPIRED_ORDERS);
  }

  trade(init: MessageInitShape<typeof TradeSchema>): this {
    return this.event({ case: "trade", value: create(TradeSchema, init) }, BusEventType.TRADE);
  }

  marketData(init: MessageInitShape<typeof MarketDataSchema>): this {
    return this.event({ case: "marketData", value: create(MarketDataSchema, init) }, BusEventType.MARKET_DATA);
  }

  /** Ledger entries, all of one movement. */
  transfer(...entries: TransferInit[]): this {
    const movement = create(LedgerMovementSchema, {
      entries: entries.map((entry) => ({
        fromAccount: entry.from ?? { assetId: "asset", type: AccountType.GENERAL, owner: "alice" },
        toAccount: entry.to ?? { assetId: "asset", type: AccountType.GENERAL, owner: "bob" },
        amount: entry.amount ?? "1",
        type: entry.type ?? TransferType.TRANSFER_FUNDS_SEND,
        fromAccountBalance: entry.fromBalance ?? "0",
        toAccountBalance: entry.toBalance ?? "1",
      })),
    });
    return this.event(
      { case: "ledgerMovements", value: { ledgerMovements: [movement] } },
      BusEventType.LEDGER_MOVEMENTS,
    );
  }

  signerRemoved(init: MessageInitShape<typeof ERC20MultiSigSignerRemovedSchema>): this {
    return this.event(
      { case: "erc20MultisigSignerRemoved", value: create(ERC20MultiSigSignerRemovedSchema, init) },
      BusEventType.ERC20_MULTI_SIG_SIGNER_REMOVED,
    );
  }

  nodeSignature(id: string, sig: Uint8Array, kind = 4): this {
    return this.event(
      { case: "nodeSignature", value: create(NodeSignatureSchema, { id, sig, kind }) },
      BusEventType.NODE_SIGNATURE,
    );
  }
}

/** Bytes as chunks of a size. */
export async function* inChunks(bytes: Uint8Array, size: number = bytes.length): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
