// The plain way to answer a page, in a process of its own: `plain.js DATABASE_URL`. Bare node:http and grpc-js, one
// hand-written statement through mysql2, JSON.stringify, and classes that protobufjs makes from the definitions.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { Server as GrpcServer, ServerCredentials } from "@grpc/grpc-js";
import mysql, { type RowDataPacket } from "mysql2";
import protobuf from "protobufjs";
import { AccountType, TransferType } from "../../gen/vega/vega_pb.js";
import { parseDatabaseUrl } from "../../src/store/connection/database-url.js";

const [databaseUrl = ""] = process.argv.slice(2);
const { host, port, socketPath, user, password, database } = parseDatabaseUrl(databaseUrl);
const pool = mysql.createPool({
  ...(socketPath === undefined ? { host, port } : { socketPath }),
  user,
  password,
  database,
  connectionLimit: 4,
  typeCast: (field) => field.string("latin1"),
});

const ledgerSql = `SELECT STRAIGHT_JOIN e.id, e.time_ns, e.quantity, e.transfer_type, e.from_balance, e.to_balance,
    f.party_id AS from_party, f.asset_id AS asset, f.market_id AS from_market, f.type AS from_type,
    t.party_id AS to_party, t.market_id AS to_market, t.type AS to_type
  FROM ledger_entry e FORCE INDEX (PRIMARY)
  JOIN account f ON f.account_id = e.from_account JOIN account t ON t.account_id = e.to_account
  ORDER BY e.id DESC LIMIT ?`;

const bundlesSql = `SELECT b.old_signer, b.submitter, b.nonce, b.time_ns, b.epoch_seq, b.signature_id,
    (SELECT GROUP_CONCAT(HEX(s.signature) ORDER BY s.signature SEPARATOR '')
     FROM node_signature s WHERE s.signature_id = b.signature_id) AS signatures
  FROM signer_removed_bundle b FORCE INDEX (bundle_by) ORDER BY time_ns DESC, signature_id DESC LIMIT ?`;

type Row = RowDataPacket & Readonly<Record<string, string>>;

function rowsOf(sql: string, want: number): Promise<Row[]> {
  return new Promise((resolve, reject) => {
    pool.query<Row[]>(sql, [want], (error, rows) => (error === null ? resolve(rows) : reject(error)));
  });
}

const transferTypes = names("TRANSFER_TYPE_", TransferType);
const accountTypes = names("ACCOUNT_TYPE_", AccountType);

function names(prefix: string, values: Readonly<Record<string, string | number>>): ReadonlyMap<string, string> {
  const named = Object.entries(values).filter(([name]) => Number.isNaN(Number(name)));
  return new Map(named.map(([name, value]) => [String(value), `${prefix}${name}`]));
}

/** A page as JSON objects; enums by number for protobuf, by name for JSON. */
async function ledgerPage(rows: number, byName: boolean): Promise<object> {
  const found = await rowsOf(ledgerSql, rows + 1);
  const edges = found.slice(0, rows).map((row) => ({
    node: {
      timestamp: row["time_ns"],
      quantity: row["quantity"],
      transferType: byName ? transferTypes.get(row["transfer_type"] ?? "") : Number(row["transfer_type"]),
      assetId: row["asset"],
      fromAccountType: byName ? accountTypes.get(row["from_type"] ?? "") : Number(row["from_type"]),
      toAccountType: byName ? accountTypes.get(row["to_type"] ?? "") : Number(row["to_type"]),
      fromAccountPartyId: row["from_party"],
      toAccountPartyId: row["to_party"],
      fromAccountMarketId: row["from_market"] || undefined,
      toAccountMarketId: row["to_market"] || undefined,
      fromAccountBalance: row["from_balance"],
      toAccountBalance: row["to_balance"],
    },
    cursor: row["id"],
  }));
  return { ledgerEntries: { edges, pageInfo: pageInfo(edges, found.length > rows) } };
}

async function bundlesPage(rows: number): Promise<object> {
  const found = await rowsOf(bundlesSql, rows + 1);
  const edges = found.slice(0, rows).map((row) => ({
    node: {
      oldSigner: row["old_signer"],
      submitter: row["submitter"],
      nonce: row["nonce"],
      timestamp: row["time_ns"],
      signatures: `0x${row["signatures"]?.toLowerCase()}`,
      epochSeq: row["epoch_seq"],
    },
    cursor: `${row["time_ns"]} ${row["signature_id"]}`,
  }));
  return { bundles: { edges, pageInfo: pageInfo(edges, found.length > rows) } };
}

function pageInfo(edges: readonly { readonly cursor: string | undefined }[], hasNextPage: boolean) {
  return {
    hasNextPage,
    hasPreviousPage: false,
    startCursor: edges[0]?.cursor ?? "",
    endCursor: edges.at(-1)?.cursor ?? "",
  };
}

const http = createServer((request, response) => {
  const query = new URL(request.url ?? "/", "http://plain").searchParams;
  const rows = Number(query.get("rows"));
  const page = query.get("list") === "bundles" ? bundlesPage(rows) : ledgerPage(rows, true);
  page.then(
    (body) => {
      const bytes = Buffer.from(JSON.stringify(body));
      response.writeHead(200, { "content-type": "application/json", "content-length": bytes.length });
      response.end(bytes);
    },
    (error: unknown) => response.writeHead(500).end(String(error)),
  );
});

function grpcServer(): Promise<number> {
  const root = new protobuf.Root();
  const folders = { ours: new URL("../../../proto/", import.meta.url), theirs: import.meta.resolve("protobufjs") };
  root.resolvePath = (_origin, target) => {
    return fileURLToPath(new URL(target, target.startsWith("google/protobuf/") ? folders.theirs : folders.ours));
  };
  root.loadSync("datanode/api/v2/trading_data.proto");
  const request = root.lookupType("datanode.api.v2.ListLedgerEntriesRequest");
  const response = root.lookupType("datanode.api.v2.ListLedgerEntriesResponse");
  const server = new GrpcServer();
  const method = {
    path: "/datanode.api.v2.TradingDataService/ListLedgerEntries",
    requestStream: false,
    responseStream: false,
    requestSerialize: (message: Buffer) => message,
    requestDeserialize: (bytes: Buffer) =>
      request.decode(bytes) as protobuf.Message & { pagination: { first: number } },
    responseSerialize: (page: object) => Buffer.from(response.encode(page).finish()),
    responseDeserialize: (bytes: Buffer) => bytes,
  } as const;
  server.addService(
    { list: method },
    {
      list: (
        call: { readonly request: { readonly pagination: { readonly first: number } } },
        respond: (error: Error | null, page?: object) => void,
      ) => {
        ledgerPage(Number(call.request.pagination.first), false).then(
          (page) => respond(null, page),
          (error: Error) => respond(error),
        );
      },
    },
  );
  return new Promise((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) => {
      if (error) reject(error);
      else resolve(bound);
    });
  });
}

const grpcPort = await grpcServer();
await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
process.on("message", () => process.send?.({ cpuMicros: cpuMicros() }));
process.on("disconnect", () => process.exit());
process.send?.({ port: (http.address() as AddressInfo).port, grpcPort });

function cpuMicros(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}
