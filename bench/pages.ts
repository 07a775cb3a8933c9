// npm run bench -- pages [--entries N] [--rounds N] [--against DIR] [--data-dir DIR]
// Pages of the ledger and of bundles, over HTTP and gRPC: the CPU time of the serving process per page, against a plain
// server on the same database, and with --against, the CPU time of service and database together, against another
// checkout that was built. Every server has the first core, the database and the load the second; rounds alternate.
import { Agent, get } from "node:http";
import { parseArgs } from "node:util";
import { Client, credentials } from "@grpc/grpc-js";
import mysql, { type Connection, type RowDataPacket } from "mysql2/promise";
import { parseDatabaseUrl } from "../src/store/database-url.js";
import { assetId, coldParty, makeDataset, partyId } from "./ledger/dataset.js";
import { openBenchServer } from "./ledger/place.js";
import { PlainServer } from "./pages/plain-server.js";
import { type PageKind, pageKinds } from "./pages/requests.js";
import { cpuMicrosOf, databasePidOf } from "./unary/process-usage.js";
import { ServiceProcess } from "./unary/service-process.js";

const { values } = parseArgs({
  options: {
    entries: { type: "string", default: "200000" },
    rounds: { type: "string", default: "11" },
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

const agent = new Agent({ keepAlive: true, maxSockets: 1 });

function getPage(url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    get(url, { agent }, (response) => {
      let bytes = 0;
      response.on("data", (piece: Buffer) => {
        bytes += piece.length;
      });
      response.on("error", reject);
      response.on("end", () => {
        if (response.statusCode === 200) resolve(bytes);
        else reject(new Error(`${url} was answered ${response.statusCode}`));
      });
    }).on("error", reject);
  });
}

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

async function measure(kind: PageKind, subjects: readonly Subject[], databasePid: number): Promise<Map<string, Costs>> {
  const costs = new Map(subjects.map(({ name }): [string, Costs] => [name, { server: [], both: [] }]));
  const rounds = Number(values.rounds);
  for (let round = -1; round < rounds; round++) {
    for (const subject of round % 2 === 0 ? subjects : subjects.toReversed()) {
      const url = subject.urlOf(kind);
      const [server, database] = [await subject.cpuMicros(), cpuMicrosOf(databasePid)];
      for (let page = 0; page < kind.count; page++) {
        const bytes = await (kind.protocol === "http" ? getPage(url) : callPage(url, kind));
        if (bytes === 0) throw new Error(`${subject.name} answered ${kind.name} with nothing`);
      }
      const served = (await subject.cpuMicros()) - server;
      if (round < 0) continue;
      costs.get(subject.name)?.server.push(served / kind.count);
      costs.get(subject.name)?.both.push((served + cpuMicrosOf(databasePid) - database) / kind.count);
    }
  }
  return costs;
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

async function run(url: string): Promise<void> {
  await makeDataset(url, { entries: Number(values.entries), parties: 2_000, hotShare: 0.05 }, console.log);
  const databasePid = await prepare(url);
  const started: { stop(): void | Promise<void> }[] = [];
  try {
    const ours = await ServiceProcess.start("ours", url, 1);
    const plain = await PlainServer.start(url);
    started.push(ours, plain);
    const before = values.against && (await ServiceProcess.start("before", url, 1, { checkout: values.against }));
    if (before) started.push(before);
    const ratios: Record<string, number> = {};
    const oursBy = new Map<PageKind["name"], readonly number[]>();
    for (const kind of pageKinds(partyId(coldParty), assetId(coldParty))) {
      const subjects = [serviceSubject(ours)];
      if (kind.plain !== undefined) subjects.push(plain);
      if (before) subjects.push(serviceSubject(before));
      const costs = await measure(kind, subjects, databasePid);
      console.log(kind.name);
      for (const [name, { server, both }] of costs) {
        const [alone, all] = [server, both].map((micros) => `${(median(micros) / 1000).toFixed(3)} ms`);
        console.log(`  ${name.padEnd(8)} ${alone} CPU of the server, ${all} with the database, per page`);
      }
      const own = costs.get("ours");
      if (kind.plain !== undefined) ratios[`${kind.name}_vs_plain`] = quotient(costs.get("plain")?.server, own?.server);
      if (before) ratios[`vs_before_${kind.name}`] = quotient(costs.get("before")?.both, own?.both);
      oursBy.set(kind.name, own?.server ?? []);
    }
    ratios["grpc_vs_json"] = quotient(oursBy.get("json_1000"), oursBy.get("grpc_1000"));
    console.log(JSON.stringify({ name: "pages", ratios }));
  } finally {
    agent.destroy();
    for (const client of clients.values()) client.close();
    for (const each of started) await each.stop();
  }
}

const server = await openBenchServer(values["data-dir"]);
try {
  await run(server.databaseUrl(`pages_${values.entries}`));
} finally {
  await server.close();
}
