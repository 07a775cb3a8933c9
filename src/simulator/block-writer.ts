import type { DescField, DescMessage } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { AssetSchema } from "../../gen/vega/assets_pb.js";
import { NodeSignatureSchema } from "../../gen/vega/commands/v1/validator_commands_pb.js";
import {
  BeginBlockSchema,
  BusEventSchema,
  BusEventType,
  EndBlockSchema,
  ERC20MultiSigSignerAddedSchema,
  ERC20MultiSigSignerRemovedSchema,
  ExpiredOrdersSchema,
  LedgerMovementsSchema,
  TimeUpdateSchema,
} from "../../gen/vega/events/v1/events_pb.js";
import { MarketSchema } from "../../gen/vega/markets_pb.js";
import { MarketDataSchema, OrderSchema, TradeSchema } from "../../gen/vega/vega_pb.js";
import { encodeBinary } from "../encoding/binary-encoder.js";
import type { Encodable } from "../encoding/field-values.js";

/** A kind of event: its name in `BusEvent`, and the member that holds it. */
export interface EventKind<S extends DescMessage = DescMessage> {
  readonly type: BusEventType;
  readonly member: number;
  readonly schema: S;
}

function kind<S extends DescMessage>(type: BusEventType, { number }: DescField, schema: S): EventKind<S> {
  return { type, member: number, schema };
}

const { field } = BusEventSchema;

/** The kinds of events whose content the definitions include. */
export const eventKinds = {
  beginBlock: kind(BusEventType.BEGIN_BLOCK, field.beginBlock, BeginBlockSchema),
  endBlock: kind(BusEventType.END_BLOCK, field.endBlock, EndBlockSchema),
  timeUpdate: kind(BusEventType.TIME_UPDATE, field.timeUpdate, TimeUpdateSchema),
  marketCreated: kind(BusEventType.MARKET_CREATED, field.marketCreated, MarketSchema),
  asset: kind(BusEventType.ASSET, field.asset, AssetSchema),
  marketUpdated: kind(BusEventType.MARKET_UPDATED, field.marketUpdated, MarketSchema),
  marketData: kind(BusEventType.MARKET_DATA, field.marketData, MarketDataSchema),
  order: kind(BusEventType.ORDER, field.order, OrderSchema),
  expiredOrders: kind(BusEventType.EXPIRED_ORDERS, field.expiredOrders, ExpiredOrdersSchema),
  trade: kind(BusEventType.TRADE, field.trade, TradeSchema),
  ledgerMovements: kind(BusEventType.LEDGER_MOVEMENTS, field.ledgerMovements, LedgerMovementsSchema),
  nodeSignature: kind(BusEventType.NODE_SIGNATURE, field.nodeSignature, NodeSignatureSchema),
  signerAdded: kind(
    BusEventType.ERC20_MULTI_SIG_SIGNER_ADDED,
    field.erc20MultisigSignerAdded,
    ERC20MultiSigSignerAddedSchema,
  ),
  signerRemoved: kind(
    BusEventType.ERC20_MULTI_SIG_SIGNER_REMOVED,
    field.erc20MultisigSignerRemoved,
    ERC20MultiSigSignerRemovedSchema,
  ),
} as const;

/** Members of `BusEvent` that the definitions lack. marketd ignores them, but the network's own node reads them. */
const unknownMember = { marketTick: 118, epochEvent: 131 } as const;
const epochStarts = 1;
const nsPerSecond = 1_000_000_000n;

const eventVersion = 1;
/** The length of a frame, and the sequence number that it includes. */
const headBytes = 12;

/** Writes the frames of consecutive blocks: length, stream sequence number, `BusEvent`. */
export class BlockWriter {
  readonly #chainId: Uint8Array;
  #frames: Uint8Array[] = [];
  #sequence = 0n;
  #height = "";
  #inBlock = 0;
  #hash: Uint8Array = Buffer.alloc(0);

  constructor(chainId: string) {
    this.#chainId = Buffer.from(chainId);
  }

  /** Stream sequence number of the last event written. */
  get sequence(): bigint {
    return this.#sequence;
  }

  /**
   * Opens a block: ids count from 1 again. `hash` is lower-case hexadecimal, and also serves as the transactions' hash.
   */
  begin(height: number, timeNs: bigint, hash: string): void {
    this.#height = String(height);
    this.#inBlock = 0;
    this.#hash = Buffer.from(hash.toUpperCase());
    this.event(eventKinds.beginBlock, { height: BigInt(height), timestamp: timeNs, hash });
  }

  event<S extends DescMessage>({ type, member, schema }: EventKind<S>, message: Encodable<S>): void {
    this.raw(type, member, encodeBinary(schema, message));
  }

  /** Expired orders: one event that takes an id for each of them. */
  expiredOrders(marketId: string, orderIds: string[]): void {
    this.event(eventKinds.expiredOrders, { marketId, orderIds });
    this.#inBlock += orderIds.length - 1;
  }

  /** A market's clock: a time in seconds. */
  marketTick(marketId: string, timeNs: bigint): void {
    const tick = new BinaryWriter().tag(1, WireType.LengthDelimited).string(marketId);
    tick.tag(2, WireType.Varint).int64(timeNs / nsPerSecond);
    this.raw(BusEventType.MARKET_TICK, unknownMember.marketTick, tick.finish());
  }

  /** The start of an epoch, which is expected to last until `endNs`. */
  epochStart(epoch: bigint, startNs: bigint, endNs: bigint): void {
    const event = new BinaryWriter().tag(1, WireType.Varint).uint64(epoch);
    event.tag(2, WireType.Varint).int32(epochStarts).tag(3, WireType.Varint).int64(startNs);
    event.tag(4, WireType.Varint).int64(endNs);
    this.raw(BusEventType.EPOCH_UPDATE, unknownMember.epochEvent, event.finish());
  }

  /** An event whose content is already encoded. The content is copied. */
  raw(type: BusEventType, member: number, content: Uint8Array): void {
    this.#sequence += 1n;
    this.#inBlock += 1;
    const { Varint, LengthDelimited } = WireType;
    const event = new BinaryWriter().tag(field.id.number, LengthDelimited).string(`${this.#height}-${this.#inBlock}`);
    event.tag(field.block.number, LengthDelimited).bytes(this.#hash);
    event.tag(field.type.number, Varint).int32(type).tag(field.version.number, Varint).int32(eventVersion);
    event.tag(field.chainId.number, LengthDelimited).bytes(this.#chainId);
    event.tag(field.txHash.number, LengthDelimited).bytes(this.#hash);
    const bytes = event.tag(member, LengthDelimited).bytes(content).finish();
    const head = Buffer.allocUnsafe(headBytes);
    head.writeUInt32BE(bytes.length + 8);
    head.writeBigUInt64BE(this.#sequence, 4);
    this.#frames.push(head, bytes);
  }

  /** Closes the block. @returns its frames; the caller owns the bytes */
  end(): Uint8Array {
    this.event(eventKinds.endBlock, { height: BigInt(this.#height) });
    const block = Buffer.concat(this.#frames);
    this.#frames = [];
    return block;
  }
}
