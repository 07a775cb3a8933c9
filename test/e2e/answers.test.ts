import { readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { fromBinary, type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BusEventSchema } from "../../gen/vega/events/v1/events_pb.js";
import { MarketSchema } from "../../gen/vega/markets_pb.js";
import { MarketDataSchema } from "../../gen/vega/vega_pb.js";
import { jsonWriteOptions } from "../../src/domain/answer.js";
import { simulate } from "../../src/simulator/network.js";
import { newDatabaseUrl } from "../support/database.js";
import { type Door, type Outcome, openDoors, type StreamName, type UnaryName } from "../support/doors.js";
import { recordingPath } from "../support/partners.js";
import { freePort, runMarketd, ServiceProcess } from "./browser-service.js";

/**
 * One table of cases, answered by the real process over every protocol, from a real network's recording (where there is
 * one) and from a simulated one. What the answers must be is worked out here from the recording's bytes, by code that
 * shares nothing with the service but the message definitions.
 */
interface Facts {
  readonly markets: ReadonlyMap<string, JsonValue>;
  readonly marketData: ReadonlyMap<string, JsonValue>;
  readonly entries: readonly Entry[];
  readonly parties: readonly string[];
}

interface Entry {
  readonly node: JsonObject;
  readonly from: Account;
  readonly to: Account;
}

interface Account {
  readonly party: string;
  readonly asset: string;
  readonly market: string;
  readonly type: string;
}

interface Case {
  readonly name: string;
  readonly method: UnaryName;
  readonly request: JsonValue;
  readonly check: (outcome: Outcome) => void;
}

interface StreamCase {
  readonly name: string;
  readonly method: StreamName;
  readonly request: JsonValue;
  readonly count: number;
  readonly check: (outcomes: readonly Outcome[]) => void;
}

function readFacts(bytes: Uint8Array): Facts {
  const markets = new Map<string, JsonValue>();
  const marketData = new Map<string, JsonValue>();
  const entries: Entry[] = [];
  const pending: (() => void)[] = [];
  let blockTime: bigint | undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let offset = 0; offset + 4 <= bytes.length; ) {
    const length = view.getUint32(offset);
    const { event } = fromBinary(BusEventSchema, bytes.subarray(offset + 12, offset + 4 + length));
    offset += 4 + length;
    if (event.case === "beginBlock") blockTime = event.value.timestamp;
    if (blockTime === undefined) continue;
    const time = blockTime;
    if (event.case === "endBlock") for (const apply of pending.splice(0)) apply();
    if (event.case === "marketCreated" || event.case === "marketUpdated") {
      const market = event.value;
      pending.push(() => markets.set(market.id, toJson(MarketSchema, market, jsonWriteOptions)));
    } else if (event.case === "marketData") {
      const data = { ...event.value, timestamp: time };
      pending.push(() => marketData.set(data.market, toJson(MarketDataSchema, data, jsonWriteOptions)));
    } else if (event.case === "ledgerMovements") {
      const found = event.value.ledgerMovements.flatMap((movement) => movement.entries.map((e) => entryOf(e, time)));
      pending.push(() => entries.push(...found));
    }
  }
  const owners = new Set(entries.flatMap((entry) => [entry.from.party, entry.to.party]));
  return { markets, marketData, entries, parties: [...owners].filter((party) => party !== "network").slice(0, 3) };
}

type LedgerEntryMessage = Extract<
  ReturnType<typeof fromBinary<typeof BusEventSchema>>["event"],
  { case: "ledgerMovements" }
>["value"]["ledgerMovements"][number]["entries"][number];

function entryOf(entry: LedgerEntryMessage, time: bigint): Entry {
  const json = toJson(
    BusEventSchema.fields.length > 0 ? ledgerEntrySchema() : ledgerEntrySchema(),
    entry,
    jsonWriteOptions,
  ) as JsonObject;
  const from = accountOf(json["fromAccount"] as JsonObject);
  const to = accountOf(json["toAccount"] as JsonObject);
  const node: JsonObject = {
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
