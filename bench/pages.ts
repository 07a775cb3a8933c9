// npm run bench -- pages [--entries N] [--starts N] [--warm-up N] [--rounds N] [--only TEXT] [--against DIR]
//   [--data-dir DIR]
// Pages of the ledger and of bundles, over HTTP and gRPC: the CPU time of the serving process per page, against a plain
// server on the same database, and with --against, the CPU time of service and database together, against another
// checkout that was built. Every server has the first core, the database and the load the second; rounds alternate. All
// servers are started several times, because V8 collects garbage more often in one process than in the next, and measured
// after rounds of warm-up, because V8 compiles for some thousand pages, which a serving process does once.
import { Agent } from "node:http";
import { parseArgs } from "node:util";
import { Client, credentials } from "@grpc/grpc-js";
import mysql, { type Connection, type RowDataPacket } from "mysql2/promise";
import { parseDatabaseUrl } from "../src/store/connection/database-url.js";
import { assetId, coldParty, makeDataset, partyId } from "./ledger/dataset.js";
import { getPage } from "./ledger/over-http.js";
import { openBenchServer } from "./ledger/place.js";
import { PlainServer } from "./pages/plain-server.js";
import { type PageKind, pageKinds } from "./pages/requests.js";
import { cpuMicrosOf, databasePidOf } from "./unary/process-usage.js";
import { ServiceProcess } from "./unary/service-process.js";

const { values } = parseArgs({
  options: {
    entries: { type: "string", default: "200000" },
    starts: { type: "string", default: "3" },
    "warm-up": { type: "string", default: "15" },
    rounds: { type: "string", default: "5" },
    only: { type: "string", default: "" },
    against: { type: "string" },
    "data-dir": { type: "string" },
  },
});
const bundleCount = 400;
const signaturesPerBundle = 4;

/** Something that answers pages, and its CPU time so far. */
interface Subject {
  readonly name: string;
  urlOf(kind: PageKind): string;
  cpuMicros(): Promise<number>;
}

interface Costs {
  /** Microseconds of the serving process per page, one value a round. */
  readonly server: number[];
  /** The same with the database. */
  readonly both: number[];
}

/** By kind of page and name of the subject. */
type CostTable = Map<string, Map<string, Costs>>;

const agent = new Agent({ keepAlive: true, maxSockets: 1 });

const clients = new Map<string, Client>();
const clientOptions = { "grpc.max_receive_message_length": -1 };

function callPage(url: string, { message }: PageKind): Promise<number> {
  const { host, pathname } = new URL(url);
  const client = clients.get(host) ?? new Client(host, credentials.createInsecure(), clientOptions);
  clients.set(host, client);
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      pathname,
      () => Buffer.from(message),
      (bytes: Buffer) => bytes.length,
      message,
      (error, bytes) => (error === null ? resolve(bytes ?? 0) : reject(error)),
    );
  });
}

/** Microseconds per page, of a round. */
async function measureRound(kind: PageKind, subject: Subject, databasePid: number): Promise<[number, number]> {
  const url = subject.urlOf(kind);
  const [server, database] = [await subject.cpuMicros(), cpuMicrosOf(databasePid)];
  for (let page = 0; page < kind.count; page++) {
    const bytes = await (kind.protocol === "http" ? getPage(url, agent) : callPage(url, kind));
    if (bytes === 0) throw new Error(`${subject.name} answered ${kind.name} with nothing`);
  }
  const served = (await subject.cpuMicros()) - server;
  return [served / kind.count, (served + cpuMicrosOf(databasePid) - database) / kind.count];
}

async function measure(
  kind: PageKind,
  subjects: readonly Subject[],
  databasePid: number,
  table: CostTable,
): Promise<void> {
  const ofKind = table.get(kind.name) ?? new Map(subjects.map(({ name }) => [name, { server: [], both: [] }]));
  table.set(kind.name, ofKind);
  for (let round = -Number(values["warm-up"]); round < Number(values.rounds); round++) {
    for (const subject of round % 2 === 0 ? subjects : subjects.toReversed()) {
      const [server, both] = await measureRound(kind, subject, databasePid);
      if (round < 0) continue;
      ofKind.get(subject.name)?.server.push(server);
      ofKind.get(subject.name)?.both.push(both);
    }
  }
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}

/** The median of the rounds' quotients. */
function quotient(theirs: readonly number[] = [], ours: readonly number[] = []): number {
  return Math.round(median(theirs.map((cost, round) => cost / (ours[round] ?? Number.NaN))) * 1000) / 1000;
}

async function connect(url: string): Promise<Connection> {
  const { host, port, socketPath, user, password, database } = parseDatabaseUrl(url);
  return mysql.createConnection({
    ...(socketPath === undefined ? { host, port } : { socketPath }),
    ...{ user, password, database },
  });
}

/** Fills in bundles, unless they are there. @returns the id of the database's process */
async function prepare(url: string): Promise<number> {
  const connection = await connect(url);
  try {
    const [[counted]] = await connection.query<RowDataPacket[]>("SELECT COUNT(*) AS n FROM signer_removed_bundle");
    if (Number(counted?.["n"]) === 0) {
      const ids = Array.from({ length: bundleCount }, (_, n) => n);
      const bundles = ids.map((n) => [`sig-${n}`, `node-${n % 9}`, `0xsubmitter${n}`, `0xsigner${n}`, n, n, n, n]);
      await connection.query(
        "INSERT INTO signer_removed_bundle (signature_id, node_id, submitter, old_signer, nonce, time_ns, epoch_seq, epoch) VALUES ?",
        [bundles],
      );
      const signatures = ids.flatMap((n) => {
        return Array.from({ length: signaturesPerBundle }, (_, s) => [`sig-${n}`, Buffer.alloc(65, n + s), 1]);
      });
      await connection.query("INSERT INTO node_signature (signature_id, signature, kind) VALUES ?", [signatures]);
    }
    return await databasePidOf(url);
  } finally {
    await connection.end();
  }
}

function serviceSubject(service: ServiceProcess): Subject {
  return {
    name: service.name,
    urlOf: ({ path }) => service.url + path,
    cpuMicros: () => service.cpuMicros(),
  };
}

/** Starts every server, measures each kind of page, and stops them. */
async function measureOnce(
  url: string,
  kinds: readonly PageKind[],
  databasePid: number,
  table: CostTable,
): Promise<void> {
  const started: { stop(): void | Promise<void> }[] = [];
  try {
    const ours = await ServiceProcess.start("ours", url, 1);
    started.push(ours);
    const plain = await PlainServer.start(url);
    started.push(plain);
    const before = values.against && (await ServiceProcess.start("before", url, 1, { checkout: values.against }));
    if (before) started.push(before);
    for (const kind of kinds) {
      const subjects = [serviceSubject(ours)];
      if (kind.plain !== undefined) subjects.push(plain);
      if (before) subjects.push(serviceSubject(before));
      await measure(kind, subjects, databasePid, table);
    }
  } finally {
    for (const each of started) await each.stop();
  }
}

function print(table: CostTable): void {
  for (const [kind, subjects] of table) {
    console.log(kind);
    for (const [name, { server, both }] of subjects) {
      const [alone, all] = [server, both].map((micros) => `${(median(micros) / 1000).toFixed(3)} ms`);
      console.log(`  ${name.padEnd(8)} ${alone} CPU of the server, ${all} with the database, per page`);
    }
  }
}

function ratiosOf(table: CostTable): Record<string, number> {
  const ratios: Record<string, number> = {};
  for (const [kind, subjects] of table) {
    const [ours, plain, before] = ["ours", "plain", "before"].map((name) => subjects.get(name));
    if (plain !== undefined) ratios[`${kind}_vs_plain`] = quotient(plain.server, ours?.server);
    if (before !== undefined) ratios[`vs_before_${kind}`] = quotient(before.both, ours?.both);
  }
  const [json, grpc] = ["json_1000", "grpc_1000"].map((kind) => table.get(kind)?.get("ours")?.server);
  if (json !== undefined && grpc !== undefined) ratios["grpc_vs_json"] = quotient(json, grpc);
  return ratios;
}

async function run(url: string): Promise<void> {
  await makeDataset(url, { entries: Number(values.entries), parties: 2_000, hotShare: 0.05 }, console.log);
  const databasePid = await prepare(url);
  const kinds = pageKinds(partyId(coldParty), assetId(coldParty)).filter(({ name }) => name.includes(values.only));
  if (kinds.length === 0) throw new RangeError(`--only: no kind of page has a name with "${values.only}"`);
  const table: CostTable = new Map();
  try {
    for (let start = 1; start <= Number(values.starts); start++) {
      await measureOnce(url, kinds, databasePid, table);
      console.log(`start ${start} of ${values.starts}: ${JSON.stringify(ratiosOf(table))}`);
    }
  } finally {
    agent.destroy();
    for (const client of clients.values()) client.close();
  }
  print(table);
  console.log(JSON.stringify({ name: "pages", ratios: ratiosOf(table) }));
}

const server = await openBenchServer(values["data-dir"]);
try {
  await run(server.databaseUrl(`pages_${values.entries}`));
} finally {
  await server.close();
}
