// npm run bench -- unary [--seconds N] [--rounds N] [--against DIR]
// A hot depth response, by GET, gRPC, Connect and gRPC-Web, against bare Node and what others build on it. The servers run
// in processes of their own on one core, the load on another; rounds alternate, and medians count. With --against only
// against the service of another checkout, which must be built.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import {
  type LoadResult,
  loadConnectJson,
  loadGrpc,
  loadGrpcWeb,
  loadHttp,
  loadHttpNumbered,
  missingPrograms,
} from "./unary/load.js";
import { withMarketStore } from "./unary/market-store.js";
import { type Sample, takeSample } from "./unary/sample.js";
import { type MeasuredServer, ServerProcess } from "./unary/server-process.js";
import { ServiceProcess } from "./unary/service-process.js";

/** One row of a table: a load on a server. */
interface Subject {
  readonly name: string;
  readonly server: MeasuredServer;
  readonly load: Load;
}

interface Measured {
  readonly perSecond: number[];
  readonly cpuMicros: number[];
}

type Load = (port: number, marketId: string, seconds: number) => Promise<LoadResult>;

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "5" },
    against: { type: "string" },
  },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
let sampleFile = "";
let sample: Sample = { marketId: "", headers: {}, json: "", binary: "" };

/** Each subject once a round, in turn. */
async function measure(subjects: readonly Subject[]): Promise<Map<string, Measured>> {
  const table = new Map(subjects.map(({ name }): [string, Measured] => [name, { perSecond: [], cpuMicros: [] }]));
  for (const { server, load } of subjects) await load(server.port, sample.marketId, Math.min(seconds, 2));
  for (let round = 0; round < rounds; round++) {
    for (const { name, server, load } of round % 2 === 0 ? subjects : subjects.toReversed()) {
      const before = await server.cpuMicros();
      const result = await load(server.port, sample.marketId, seconds);
      table.get(name)?.perSecond.push(result.perSecond);
      table.get(name)?.cpuMicros.push(((await server.cpuMicros()) - before) / result.requests);
    }
  }
  return table;
}

/** The same load on each server. */
function measureServers(load: Load, servers: readonly MeasuredServer[]): Promise<Map<string, Measured>> {
  return measure(servers.map((server) => ({ name: server.name, server, load })));
}

function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** A throughput over a reference's: the median of the rounds' ratios, so that what disturbs a whole round counts less. */
function ratio(table: Map<string, Measured>, reference: string, name = "ours"): number {
  const rates = table.get(name)?.perSecond ?? [];
  const theirs = table.get(reference)?.perSecond ?? [];
  return Math.round(median(rates.map((rate, round) => rate / (theirs[round] ?? Number.NaN))) * 1000) / 1000;
}

function print(title: string, table: Map<string, Measured>): void {
  console.log(`\n${title}`);
  for (const [name, { perSecond, cpuMicros }] of table) {
    const rate = Math.round(median(perSecond)).toLocaleString("en");
    const spread = `${Math.round(Math.min(...perSecond))} to ${Math.round(Math.max(...perSecond))}`;
    console.log(
      `  ${name.padEnd(10)} ${rate.padStart(8)} req/s (${spread})  ${median(cpuMicros).toFixed(1)} us CPU per request`,
    );
  }
}

async function compare(
  title: string,
  load: Load,
  ours: MeasuredServer,
  kinds: readonly string[],
): Promise<Map<string, Measured>> {
  const others = await Promise.all(kinds.map((kind) => ServerProcess.start(kind, sampleFile)));
  try {
    const table = await measureServers(load, [ours, ...others]);
    print(title, table);
    return table;
  } finally {
    for (const server of others) server.stop();
  }
}

/** The rate of calls by POST over that of a GET, each request in other bytes, on one service. */
async function comparePosts(server: MeasuredServer): Promise<Record<string, number>> {
  const table = await measure([
    { name: "GET", server, load: loadHttpNumbered },
    { name: "Connect", server, load: loadConnectJson },
    { name: "gRPC-Web", server, load: loadGrpcWeb },
  ]);
  print("depth by GET, by Connect with JSON and by gRPC-Web, each request in other bytes", table);
  return {
    connect_json_vs_numbered_get: ratio(table, "GET", "Connect"),
    grpc_web_vs_numbered_get: ratio(table, "GET", "gRPC-Web"),
  };
}

/** CPU time per request of one serving process over that of two, on the same load. */
async function workerCost(one: MeasuredServer, databaseUrl: string): Promise<number> {
  const two = await ServiceProcess.start("2 workers", databaseUrl, 2);
  try {
    const table = await measureServers(loadHttp, [one, two]);
    print("depth by GET, JSON, one worker and two", table);
    const cost = (name: string): number => median(table.get(name)?.cpuMicros ?? []);
    return Math.round((cost(one.name) / cost(two.name)) * 1000) / 1000;
  } finally {
    await two.stop();
  }
}

/** This checkout's throughput over that of another service, both on the same database. */
async function compareServices(ours: ServiceProcess, databaseUrl: string, checkout: string): Promise<void> {
  const name = "before";
  const other = await ServiceProcess.start(name, databaseUrl, 1, { checkout });
  const loads = {
    json: loadHttp,
    json_numbered: loadHttpNumbered,
    grpc: loadGrpc,
    connect_json: loadConnectJson,
    grpc_web: loadGrpcWeb,
  };
  const ratios: Record<string, number> = {};
  try {
    for (const [kind, load] of Object.entries(loads)) {
      const table = await measureServers(load, [ours, other]);
      print(kind, table);
      const cpu = (server: string): readonly number[] => table.get(server)?.cpuMicros ?? [];
      const quotients = cpu(name).map((micros, round) => micros / (cpu("ours")[round] ?? Number.NaN));
      console.log(
        `  CPU time, ${name} over ours: ${quotients
          .map((quotient) => quotient.toFixed(2))
          .sort()
          .join(" ")}`,
      );
      ratios[`${kind}_vs_${name}`] = ratio(table, name);
      ratios[`${kind}_cpu_vs_${name}`] = Math.round(median(quotients) * 1000) / 1000;
    }
  } finally {
    await other.stop();
  }
  console.log(JSON.stringify({ name: "unary", ratios }));
}

async function run(databaseUrl: string): Promise<void> {
  const ours = await ServiceProcess.start("ours", databaseUrl, 1);
  try {
    sample = { ...(await takeSample(ours.url)), databaseUrl };
    writeFileSync(sampleFile, JSON.stringify(sample));
    const sizes = [sample.json, sample.binary].map((base64) => Buffer.from(base64, "base64").length);
    console.log(`a book of ${sizes[0]} bytes of JSON, ${sizes[1]} of protobuf; ${rounds} rounds of ${seconds} s`);
    if (values.against !== undefined) {
      return await compareServices(ours, databaseUrl, values.against);
    }
    const http = ["rawHttp", "fastify"];
    const json = await compare("depth by GET, JSON, HTTP/1.1", loadHttp, ours, http);
    const numbered = await compare("the same, each request in other bytes", loadHttpNumbered, ours, http);
    const grpc = await compare("depth by gRPC, unary", loadGrpc, ours, ["rawHttp2", "grpcJs", "connect", "handlers"]);
    const posts = await compare("depth by Connect, JSON, each request in other bytes", loadConnectJson, ours, [
      "handlersHttp1",
    ]);
    const ratios = {
      json_vs_raw_http: ratio(json, "rawHttp"),
      json_vs_fastify: ratio(json, "fastify"),
      json_numbered_vs_raw_http: ratio(numbered, "rawHttp"),
      json_numbered_vs_fastify: ratio(numbered, "fastify"),
      grpc_vs_raw_http2: ratio(grpc, "rawHttp2"),
      grpc_vs_grpc_js_prebuilt: ratio(grpc, "grpcJs"),
      grpc_vs_connect: ratio(grpc, "connect"),
      grpc_vs_handlers: ratio(grpc, "handlers"),
      connect_json_vs_handlers: ratio(posts, "handlersHttp1"),
      ...(await comparePosts(ours)),
      worker_cost: await workerCost(ours, databaseUrl),
    };
    console.log(JSON.stringify({ name: "unary", ratios }));
  } finally {
    await ours.stop();
  }
}

const missing = missingPrograms();
if (missing.length > 0) {
  console.error(`bench unary needs ${missing.join(" and ")} (Debian: apt-get install wrk nghttp2-client)`);
  process.exitCode = 1;
} else {
  const directory = mkdtempSync(join(tmpdir(), "bench-unary-"));
  sampleFile = join(directory, "sample.json");
  try {
    await withMarketStore(run);
  } finally {
    rmSync(directory, { recursive: true });
  }
}
