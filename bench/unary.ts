// npm run bench -- unary [--seconds N] [--rounds N]
// A hot depth answer, by GET and by gRPC, against bare Node and what others build on it. The servers run in processes of
// their own on one core, the load on another; rounds alternate, and medians count.
import { parseArgs } from "node:util";
import { depthPath } from "./unary/depth.js";
import { type LoadResult, loadGrpc, loadHttp, missingPrograms } from "./unary/load.js";
import { ServerProcess } from "./unary/server-process.js";

interface Measured {
  readonly server: ServerProcess;
  readonly perSecond: number[];
  readonly cpuMicros: number[];
}

type Load = (port: number, seconds: number) => Promise<LoadResult>;

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "5" },
    only: { type: "string" },
  },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);

async function measure(load: Load, servers: readonly ServerProcess[]): Promise<Map<string, Measured>> {
  const measured = servers.map((server): Measured => ({ server, perSecond: [], cpuMicros: [] }));
  for (const { server } of measured) await load(server.port, Math.min(seconds, 2));
  for (let round = 0; round < rounds; round++) {
    for (const { server, perSecond, cpuMicros } of measured) {
      const before = await server.cpuMicros();
      const result = await load(server.port, seconds);
      perSecond.push(result.perSecond);
      cpuMicros.push(((await server.cpuMicros()) - before) / result.requests);
    }
  }
  return new Map(measured.map((each) => [each.server.name, each]));
}

function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** Our throughput over a reference's: the median of the rounds' ratios, so that what disturbs a whole round counts less. */
function ratio(table: Map<string, Measured>, reference: string): number {
  const ours = table.get("ours")?.perSecond ?? [];
  const theirs = table.get(reference)?.perSecond ?? [];
  return Math.round(median(ours.map((rate, round) => rate / (theirs[round] ?? Number.NaN))) * 1000) / 1000;
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

/** Our own answer's headers, which the compared servers send too. */
async function ourHeaders(port: number): Promise<Record<string, string>> {
  const response = await fetch(`http://127.0.0.1:${port}${depthPath}`);
  if (response.status !== 200) throw new Error(`our server answered ${response.status}`);
  await response.arrayBuffer();
  const own = new Set(["date", "connection", "keep-alive", "content-length", "transfer-encoding"]);
  return Object.fromEntries([...response.headers].filter(([name]) => !own.has(name)));
}

async function benchJson(ours: ServerProcess, ratios: Record<string, number>): Promise<void> {
  const headers = await ourHeaders(ours.port);
  const others = [await ServerProcess.start("rawHttp", headers), await ServerProcess.start("fastify", headers)];
  const table = await measure(loadHttp, [ours, ...others]);
  for (const server of others) server.stop();
  print("depth by GET, JSON, HTTP/1.1", table);
  ratios["json_vs_raw_http"] = ratio(table, "rawHttp");
  ratios["json_vs_fastify"] = ratio(table, "fastify");
}

async function benchGrpc(ours: ServerProcess, ratios: Record<string, number>): Promise<void> {
  const others: ServerProcess[] = [];
  for (const kind of ["rawHttp2", "grpcJs", "connect"]) others.push(await ServerProcess.start(kind));
  const table = await measure(loadGrpc, [ours, ...others]);
  for (const server of others) server.stop();
  print("depth by gRPC, unary", table);
  ratios["grpc_vs_raw_http2"] = ratio(table, "rawHttp2");
  ratios["grpc_vs_grpc_js_prebuilt"] = ratio(table, "grpcJs");
  ratios["grpc_vs_connect"] = ratio(table, "connect");
}

async function main(): Promise<void> {
  const missing = missingPrograms();
  if (missing.length > 0) {
    console.error(`bench unary needs ${missing.join(" and ")} (Debian: apt-get install wrk nghttp2-client)`);
    process.exitCode = 1;
    return;
  }
  const ratios: Record<string, number> = {};
  const ours = await ServerProcess.start("ours");
  if (values.only !== "grpc") await benchJson(ours, ratios);
  if (values.only !== "json") await benchGrpc(ours, ratios);
  ours.stop();
  console.log(JSON.stringify({ name: "unary", ratios }));
}

await main();
