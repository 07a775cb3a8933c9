import { fromBinary, type JsonObject, type JsonValue, type MessageShape, toJson } from "@bufbuild/protobuf";
import { BusEventSchema } from "../../gen/vega/events/v1/events_pb.js";
import { MarketSchema } from "../../gen/vega/markets_pb.js";
import { LedgerEntrySchema, MarketDataSchema } from "../../gen/vega/vega_pb.js";
import { jsonWriteOptions } from "../../src/encoding/json-encoder.js";

/** An account as a ledger entry names it. */
export interface Account {
  readonly party: string;
  readonly asset: string;
  /** Empty: none. */
  readonly market: string;
  readonly type: string;
}

/** A ledger entry, as the response must give it, and its accounts. */
export interface Entry {
  readonly node: JsonObject;
  readonly from: Account;
  readonly to: Account;
}

/** What a recording says, worked out by code that shares nothing with the service but the message definitions. */
export interface Facts {
  readonly markets: ReadonlyMap<string, JsonValue>;
  readonly marketData: ReadonlyMap<string, JsonValue>;
  /** In the order of the network. */
  readonly entries: readonly Entry[];
  /** One removal of one submitter each. */
  readonly removals: number;
}

const networkParty = "network";

/** Reads a whole recording (not gzipped) at once. Events of a block that never ended do not count. */
export function readFacts(bytes: Uint8Array): Facts {
  const markets = new Map<string, JsonValue>();
  const marketData = new Map<string, JsonValue>();
  const entries: Entry[] = [];
  const removed = new Set<string>();
  let pending: (() => void)[] = [];
  let time: bigint | undefined;
  for (const { event } of eventsOf(bytes)) {
    if (event.case === "beginBlock") time = event.value.timestamp;
    if (time === undefined) continue;
    const blockTime = time;
    if (event.case === "endBlock") {
      for (const apply of pending) apply();
      pending = [];
    } else if (event.case === "marketCreated" || event.case === "marketUpdated") {
      const market = event.value;
      pending.push(() => markets.set(market.id, toJson(MarketSchema, market, jsonWriteOptions)));
    } else if (event.case === "marketData") {
      const data = { ...event.value, timestamp: blockTime };
      pending.push(() => marketData.set(data.market, toJson(MarketDataSchema, data, jsonWriteOptions)));
    } else if (event.case === "ledgerMovements") {
      const movements = event.value.ledgerMovements;
      pending.push(() => {
        for (const movement of movements) entries.push(...movement.entries.map((entry) => entryOf(entry, blockTime)));
      });
    } else if (event.case === "erc20MultisigSignerRemoved") {
      const submitters = event.value.signatureSubmitters;
      pending.push(() => {
        for (const { signatureId } of submitters) removed.add(signatureId);
      });
    }
  }
  return { markets, marketData, entries, removals: removed.size };
}

function* eventsOf(bytes: Uint8Array): Generator<MessageShape<typeof BusEventSchema>> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let offset = 0; offset < bytes.length; ) {
    const length = view.getUint32(offset);
    yield fromBinary(BusEventSchema, bytes.subarray(offset + 12, offset + 4 + length));
    offset += 4 + length;
  }
}

function entryOf(entry: MessageShape<typeof LedgerEntrySchema>, time: bigint): Entry {
  const json = toJson(LedgerEntrySchema, entry, jsonWriteOptions) as JsonObject;
  const from = accountOf(json["fromAccount"] as JsonObject);
  const to = accountOf(json["toAccount"] as JsonObject);
  const node = {
    timestamp: time.toString(),
    quantity: entry.amount,
    transferType: json["type"] as string,
    assetId: from.asset,
    fromAccountType: from.type,
    toAccountType: to.type,
    fromAccountPartyId: from.party,
    toAccountPartyId: to.party,
    ...(from.market === "" ? {} : { fromAccountMarketId: from.market }),
    ...(to.market === "" ? {} : { toAccountMarketId: to.market }),
    fromAccountBalance: entry.fromAccountBalance,
    toAccountBalance: entry.toAccountBalance,
  };
  return { node, from, to };
}

function accountOf(account: JsonObject): Account {
  return {
    party: (account["owner"] as string | undefined) || networkParty,
    asset: account["assetId"] as string,
    market: (account["marketId"] as string | undefined) ?? "",
    type: account["type"] as string,
  };
}
