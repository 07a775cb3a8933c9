import type { JsonObject } from "@bufbuild/protobuf";
import { fromBinary, toJson } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import { CallFailure, failureFromJson } from "./call-failure.js";
import { type ExportFile, exportProblem } from "./export-file.js";
import { HttpClient, wholeBody } from "./http-client.js";
import { readAllPages } from "./page-readers.js";
import { deadlineMs, type Finding, type Readers, repeat } from "./reader.js";
import { type Protocol, type RpcClient, rpcClient } from "./rpc-client.js";
import { methods, partyOf } from "./unary-call.js";

const pauseMs = 250;
/** A whole export takes longer than a response. */
const exportMaxMs = 10_000;

/** Exports at once where a fault asks for many: enough that a pool of connections uses all of them. */
const burstSize = 10;

/** Exports in every format, and readers of all pages of a list. */
export function startLedgerReaders(readers: Readers, isBurst: () => boolean): Promise<void>[] {
  const loops = (["REST", "Connect", "gRPC-Web", "gRPC"] as const).map((protocol) => {
    const client = rpcClient(protocol, readers.port);
    return repeat(readers, `${protocol} export`, "ledger", pauseMs, (startedAt) =>
      checkExport(readers, startedAt, (party, asset, signal) => exportOver(client, party, asset, signal)),
    );
  });
  const http = new HttpClient(readers.port);
  loops.push(
    repeat(readers, "CSV export", "ledger", pauseMs, (startedAt) =>
      checkExport(readers, startedAt, (party, asset, signal) => rawExport(http, party, asset, signal)),
    ),
  );
  for (let place = 1; place <= burstSize; place++) {
    const client = rpcClient("REST", readers.port);
    const call = (startedAt: number) =>
      checkExport(readers, startedAt, (party, asset, signal) => exportOver(client, party, asset, signal));
    loops.push(repeat(readers, `export ${place} of a burst`, "ledger", 0, call, isBurst));
  }
  for (const protocol of ["REST", "gRPC"] satisfies Protocol[]) {
    const client = rpcClient(protocol, readers.port);
    loops.push(
      repeat(readers, `${protocol} pages`, "ledger", pauseMs, (_, state) => readAllPages(readers, client, state)),
    );
  }
  return loops;
}

async function checkExport(
  { judge, random, signal }: Readers,
  startedAt: number,
  read: (party: string, asset: string, signal: AbortSignal) => Promise<ExportFile>,
): Promise<Finding> {
  // The network itself has a part in most entries.
  const party = random.next() < 0.4 ? "network" : partyOf(judge, random.next());
  const { fold } = judge.chain;
  const row = fold.rows.row(party, fold.rows.count(party, fold.height) - 1);
  if (row === undefined) return undefined;
  const asset = row.from.asset;
  const late = AbortSignal.timeout(exportMaxMs);
  let file: ExportFile;
  try {
    file = await read(party, asset, AbortSignal.any([signal, late]));
  } catch (error) {
    throw late.aborted ? new CallFailure("late", `the export did not end within ${exportMaxMs} ms`) : error;
  }
  const newest = file.facts.get("newestBlock");
  if (newest === undefined) {
    const rows = file.csv.toString("latin1").split("\r\n").length - 2;
    // A database without any block has nothing to state.
    return judge.floor(startedAt) === 0 && rows === 0
      ? "right"
      : { wrong: `an export of ${rows} rows states no newest block` };
  }
  let problem: string | undefined;
  const verdict = judge.check(startedAt, Number(newest), (each, height) => {
    problem = exportProblem(file, party, asset, each, height);
    return problem === undefined;
  });
  if (verdict !== undefined) return verdict === "right" ? "right" : "old";
  return { wrong: `the export of ${party} up to block ${newest}: ${problem ?? "that block does not exist"}` };
}

async function exportOver(
  client: RpcClient,
  partyId: string,
  assetId: string,
  signal: AbortSignal,
): Promise<ExportFile> {
  const chunks: Uint8Array[] = [];
  const facts = new Map<string, string>();
  const request = { partyId, assetId };
  for await (const body of client.stream(methods.exportLedgerEntries, request, deadlineMs, signal)) {
    chunks.push(body.data);
    for (const extension of body.extensions) {
      const struct = toJson(StructSchema, fromBinary(StructSchema, extension.value)) as JsonObject;
      for (const [name, value] of Object.entries(struct)) facts.set(name, String(value));
    }
  }
  return { csv: Buffer.concat(chunks), facts };
}

/** The names of the facts in HTTP headers and trailers. */
const factNames = {
  "export-newest-block": "newestBlock",
  "export-rows": "rows",
  "export-sum-of-effects": "sumOfEffects",
  "export-sha256": "sha256",
} as const;

async function rawExport(http: HttpClient, party: string, asset: string, signal: AbortSignal): Promise<ExportFile> {
  const path = `/api/v2/ledgerentry/export?partyId=${party}&assetId=${asset}&alt=media`;
  const response = await http.open({ path, deadlineMs }, signal);
  const csv = await wholeBody(response).catch((error: unknown) => {
    throw error instanceof CallFailure ? new CallFailure("cut off", error.message) : error;
  });
  if (response.statusCode !== 200) {
    throw failureFromJson(parsed(csv), `status ${response.statusCode}`);
  }
  const facts = new Map<string, string>();
  for (const [field, name] of Object.entries(factNames)) {
    const value = response.headers[field] ?? response.trailers[field];
    if (typeof value === "string") facts.set(name, value);
  }
  return { csv, facts };
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return body.toString().slice(0, 200);
  }
}
