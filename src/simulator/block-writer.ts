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
  readonly tag: number;
  readonly schema: S;
}

const lengthDelimited = 2;

function kind<S extends DescMessage>(type: BusEventType, field: DescField, schema: S): EventKind<S> {
  return { type, tag: (field.number << 3) | lengthDelimited, schema };
}

const member = BusEventSchema.field;

/** The kinds of events whose content the definitions include. */
export const eventKinds = {
  beginBlock: kind(BusEventType.BEGIN_BLOCK, member.beginBlock, BeginBlockSchema),
  endBlock: kind(BusEventType.END_BLOCK, member.endBlock, EndBlockSchema),
  timeUpdate: kind(BusEventType.TIME_UPDATE, member.timeUpdate, TimeUpdateSchema),
  marketCreated: kind(BusEventType.MARKET_CREATED, member.marketCreated, MarketSchema),
  asset: kind(BusEventType.ASSET, member.asset, AssetSchema),
  marketUpdated: kind(BusEventType.MARKET_UPDATED, member.marketUpdated, MarketSchema),
  marketData: kind(BusEventType.MARKET_DATA, member.marketData, MarketDataSchema),
  order: kind(BusEventType.ORDER, member.order, OrderSchema),
  expiredOrders: kind(BusEventType.EXPIRED_ORDERS, member.expiredOrders, ExpiredOrdersSchema),
  trade: kind(BusEventType.TRADE, member.trade, TradeSchema),
  ledgerMovements: kind(BusEventType.LEDGER_MOVEMENTS, member.ledgerMovements, LedgerMovementsSchema),
  nodeSignature: kind(BusEventType.NODE_SIGNATURE, member.nodeSignature, NodeSignatureSchema),
  signerAdded: kind(
    BusEventType.ERC20_MULTI_SIG_SIGNER_ADDED,
    member.erc20MultisigSignerAdded,
    ERC20MultiSigSignerAddedSchema,
  ),
  signerRemoved: kind(
    BusEventType.ERC20_MULTI_SIG_SIGNER_REMOVED,
    member.erc20MultisigSignerRemoved,
    ERC20MultiSigSignerRemovedSchema,
  ),
} as const;

/** Members of `BusEvent` that the definitions lack. marketd ignores them, but the network's own node reads them. */
const unknownMember = { marketTick: 118, epochEvent: 131 } as const;
const epochStarts = 1;
const nsPerSecond = 1_000_000_000n;

const initialBytes = 1 << 16;
/** Bytes before an event's own: frame length and sequence, id, block, type, version, chain id, transaction hash. */
const headerBytesMax = 512;
const fieldTag = { id: 1, block: 2, type: 3, version: 4, chainId: 5, txHash: 6 } as const;
const eventVersion = 1;

/** Writes a protobuf varint of up to 32 bits. @returns the offset behind it */
export function writeVarint(buffer: Uint8Array, at: number, value: number): number {
  let offset = at;
  let rest = value;
  while (rest > 0x7f) {
    buffer[offset++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  buffer[offset++] = rest;
  return offset;
}

/**
 * Writes the frames of consecutive blocks: length, stream sequence number, `BusEvent`. The outer message is encoded by
 * hand, because it differs between events only in a few bytes.
 */
export class BlockWriter {
  readonly #chainId: Buffer;
  #buffer = Buffer.allocUnsafe(initialBytes);
  #length = 0;
  #sequence = 0n;
  #height = "";
  #inBlock = 0;
  #hash = Buffer.alloc(0);

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

  event<S extends DescMessage>(eventKind: EventKind<S>, message: Encodable<S>): void {
    const body = encodeBinary(eventKind.schema, message);
    this.raw(eventKind.type, eventKind.tag, body, body.length);
  }

  /** Expired orders: one event that takes an id for each of them. */
  expiredOrders(marketId: string, orderIds: string[]): void {
    this.event(eventKinds.expiredOrders, { marketId, orderIds });
    this.#inBlock += orderIds.length - 1;
  }

  /** A market's clock: a time in seconds. */
  marketTick(marketId: string, timeNs: bigint): void {
    const tick = new BinaryWriter().tag(1, WireType.LengthDelimited).string(marketId);
    this.#unknown(
      BusEventType.MARKET_TICK,
      unknownMember.marketTick,
      tick.tag(2, WireType.Varint).int64(timeNs / nsPerSecond),
    );
  }

  /** The start of an epoch, which is expected to last until `endNs`. */
  epochStart(epoch: bigint, startNs: bigint, endNs: bigint): void {
    const event = new BinaryWriter().tag(1, WireType.Varint).uint64(epoch);
    event.tag(2, WireType.Varint).int32(epochStarts).tag(3, WireType.Varint).int64(startNs);
    this.#unknown(BusEventType.EPOCH_UPDATE, unknownMember.epochEvent, event.tag(4, WireType.Varint).int64(endNs));
  }

  #unknown(type: BusEventType, field: number, content: BinaryWriter): void {
    const body = content.finish();
    this.raw(type, (field << 3) | lengthDelimited, body, body.length);
  }

  /** An event whose content is already encoded: the first `length` bytes of `body`. */
  raw(type: BusEventType, tag: number, body: Uint8Array, length: number): void {
    this.#reserve(headerBytesMax + length);
    this.#sequence += 1n;
    this.#inBlock += 1;
    const start = this.#length;
    const buffer = this.#buffer;
    buffer.writeBigUInt64BE(this.#sequence, start + 4);
    let at = this.#text(start + 12, fieldTag.id, Buffer.from(`${this.#height}-${this.#inBlock}`));
    at = this.#text(at, fieldTag.block, this.#hash);
    at = writeVarint(buffer, writeVarint(buffer, at, fieldTag.type << 3), type);
    at = writeVarint(buffer, writeVarint(buffer, at, fieldTag.version << 3), eventVersion);
    at = this.#text(at, fieldTag.chainId, this.#chainId);
    at = this.#text(at, fieldTag.txHash, this.#hash);
    at = writeVarint(buffer, writeVarint(buffer, at, tag), length);
    buffer.set(body.length === length ? body : body.subarray(0, length), at);
    at += length;
    buffer.writeUInt32BE(at - start - 4, start);
    this.#length = at;
  }

  /** Closes the block. @returns its frames; the caller owns the bytes */
  end(): Uint8Array {
    this.event(eventKinds.endBlock, { height: BigInt(this.#height) });
    const block = this.#buffer.subarray(0, this.#length);
    this.#buffer = Buffer.allocUnsafe(Math.max(initialBytes, this.#length + (this.#length >> 3)));
    this.#length = 0;
    return block;
  }

  #text(at: number, field: number, text: Buffer): number {
    const offset = writeVarint(
      this.#buffer,
      writeVarint(this.#buffer, at, (field << 3) | lengthDelimited),
      text.length,
    );
    this.#buffer.set(text, offset);
    return offset + text.length;
  }

  #reserve(byteCount: number): void {
    if (this.#length + byteCount <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#length + byteCount));
    this.#buffer.copy(larger, 0, 0, this.#length);
    this.#buffer = larger;
  }
}
