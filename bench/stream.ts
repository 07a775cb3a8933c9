// npm run bench -- stream [--rounds N] [--connections N] [--seconds N] [--only fan-out|delay|open|kafka|following|kinds] [--profile DIR] [--against DIR]
// Depth streams to many: server CPU time per delivered update against what others do with the same bytes, the delay from
// commit to receipt, and what ten thousand open streams cost. Servers run in processes of their own on one core, readers
// that only count on another; rounds alternate, and medians count.
import { parseArgs } from "node:util";
import { CommittedNetwork } from "./stream/committed-network.js";
import { type Compared, type CompareOptions, compare } from "./stream/compare.js";
import { type Delays, measureDelays, pollIntervalMs, type ReaderGroup } from "./stream/delay.js";
import { type Following, measureFollowing } from "./stream/following.js";
import { measureKinds } from "./stream/kinds.js";
import { blockCount } from "./stream/simulated-blocks.js";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "7" },
    connections: { type: "string", default: "200" },
    only: { type: "string" },
    seconds: { type: "string", default: "30" },
    profile: { type: "string" },
    against: { type: "string" },
  },
});

function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** A reference's CPU time over ours: the median of the rounds' ratios. */
function ratio(all: readonly Compared[], reference: string): number {
  const of = (name: string): readonly number[] => all.find((one) => one.name === name)?.cpuMicros ?? [];
  const ours = of("ours");
  return Math.round(median(of(reference).map((micros, round) => micros / (ours[round] ?? Number.NaN))) * 1000) / 1000;
}

function print(title: string, all: readonly Compared[]): void {
  console.log(`\n${title}`);
  for (const { name, cpuMicros, messagesPerSecond, roundBytes } of all) {
    const spread = `${Math.min(...cpuMicros).toFixed(2)} to ${Math.max(...cpuMicros).toFixed(2)}`;
    const rate = Math.round(median(messagesPerSecond)).toLocaleString("en");
    console.log(
      `  ${name.padEnd(12)} ${median(cpuMicros).toFixed(2).padStart(6)} us CPU per update (${spread})` +
        `  ${rate.padStart(8)} messages/s of ${Math.round(roundBytes / blockCount)} bytes`,
    );
  }
}

async function fanOut(ratios: Record<string, number>): Promise<void> {
  const options: CompareOptions = {
    connections: Number(values.connections),
    rounds: Number(values.rounds),
    nodeArgs: values.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${values.profile}`],
    against: values.against,
  };
  if (options.against !== undefined) {
    for (const protocol of ["grpc", "lines"] as const) {
      const both = await compare(["ours", "before"], protocol, options);
      print(`${protocol} to ${options.connections} connections`, both);
      ratios[`${protocol}_vs_before`] = ratio(both, "before");
    }
    return;
  }
  const grpc = await compare(["ours", "rawHttp2", "grpcJs", "connectNode"], "grpc", options);
  print(`gRPC to ${options.connections} connections`, grpc);
  ratios["grpc_vs_raw_http2"] = ratio(grpc, "rawHttp2");
  ratios["grpc_vs_grpc_js_prebuilt"] = ratio(grpc, "grpcJs");
  ratios["grpc_vs_connect"] = ratio(grpc, "connectNode");
  const lines = await compare(["ours", "rawHttp"], "lines", options);
  print(`JSON lines to ${options.connections} connections`, lines);
  ratios["json_lines_vs_raw_http"] = ratio(lines, "rawHttp");
}

function printDelays({ streams, connections, protocol, ...of }: Delays): void {
  const name = protocol === "grpc" ? "gRPC" : "JSON lines";
  const times = [of.median, of.p99, of.lastMedian, of.lastWorst].map((ms) => ms.toFixed(1).padStart(7)).join("");
  const kilobytes = [of.residentBytesPerStream, of.heapBytesPerStream].map((bytes) => (bytes / 1024).toFixed(1));
  const memory = streams < memoryStreamsMin ? "" : `  ${kilobytes[0]} KiB resident (${kilobytes[1]} heap) each`;
  console.log(
    `  ${String(streams).padStart(6)} ${name} on ${connections} connections${times}` +
      `  aim ${of.aim.toFixed(1)}, met by ${of.within} of ${of.blocks} blocks${memory}`,
  );
}

/** Fewer say little about what one takes. */
const memoryStreamsMin = 1_000;

async function delays(): Promise<void> {
  const few = (connections: number): ReaderGroup => ({ protocol: "grpc", connections, streamsPerConnection: 1 });
  const groups: [ReaderGroup, number][] = [];
  if (values.only !== "open") groups.push([few(1), 60], [few(200), 60], [few(2_000), 40]);
  if (values.only !== "delay") {
    groups.push([{ protocol: "grpc", connections: 100, streamsPerConnection: 100 }, 15]);
    groups.push([few(10_000), 15], [{ ...few(10_000), protocol: "lines" }, 15]);
  }
  console.log("\nms from commit to receipt: median, 99th percentile; until the last had it: median, worst");
  await CommittedNetwork.lease(async (network) => {
    for (const [group, blocks] of groups) printDelays(await measureDelays(network, group, blocks));
  });
}

/** From a producer's write to the last of 200 streams, by way of a broker, a loader and a database. */
async function kafkaDelays(): Promise<void> {
  // Its client is an optional package.
  const [{ hasKafka }, { KafkaNetwork }] = await Promise.all([
    import("../test/support/kafka-broker.js"),
    import("./stream/kafka-network.js"),
  ]);
  if (!hasKafka()) throw new Error("Kafka's jars are not there; .ci/run installs them (MARKETD_TEST_KAFKA)");
  await KafkaNetwork.lease(async (network) => {
    const group: ReaderGroup = { protocol: "grpc", connections: 200, streamsPerConnection: 1 };
    const found = await measureDelays(network, group, 200);
    console.log("\nms from the producer's write to receipt: median, 99th percentile; until the last: median, worst");
    printDelays(found);
    const beyond = [found.lastMedian, found.lastP99].map((ms) => (ms - pollIntervalMs).toFixed(1));
    console.log(`  until the last had it, less the poll interval: median ${beyond[0]}, 99th percentile ${beyond[1]}`);
  });
}

function printFollowing(name: string, { database, service, loader, all, statements, blocks }: Following): void {
  const cores = [database, service, loader, all].map((used) => used.toFixed(4).padStart(10)).join("");
  console.log(
    `  ${name.padEnd(14)}${cores}${Math.round(statements).toString().padStart(8)}${blocks.toFixed(1).padStart(8)}`,
  );
}

/** CPU time of following at rest and live, in turn with another checkout where one is given. */
async function following(): Promise<void> {
  console.log("\ncores in use: database, service, loader, all; statements and blocks a second");
  for (let round = 1; round <= Number(values.rounds); round++) {
    for (const checkout of values.against === undefined ? [undefined] : [undefined, values.against]) {
      const { idle, live } = await measureFollowing(Number(values.seconds), checkout);
      printFollowing(`idle ${checkout === undefined ? "" : "before"}`, idle);
      printFollowing(`live ${checkout === undefined ? "" : "before"}`, live);
    }
  }
}

/** What an update costs, by the kind of stream. */
async function kinds(ratios: Record<string, number>): Promise<void> {
  const connections = Number(values.connections);
  const costs = await measureKinds(Number(values.rounds), Number(values.seconds), connections);
  const depth = costs.find(({ kind }) => kind === "depth")?.cpuMicros ?? [];
  console.log(`\nJSON lines to ${connections} connections, 20 blocks a second of one market`);
  for (const { kind, cpuMicros, updatesPerSecond, bytesPerUpdate } of costs) {
    console.log(
      `  ${kind.padEnd(8)} ${median(cpuMicros).toFixed(2).padStart(6)} us CPU per update` +
        `  ${Math.round(median(updatesPerSecond)).toLocaleString("en").padStart(6)} updates/s of ${Math.round(median(bytesPerUpdate))} bytes`,
    );
    if (kind === "depth") continue;
    const ratio = median(cpuMicros.map((micros, round) => (depth[round] ?? Number.NaN) / micros));
    ratios[`${kind}_vs_depth`] = Math.round(ratio * 1000) / 1000;
  }
}

const ratios: Record<string, number> = {};
if (values.only === undefined || values.only === "fan-out") await fanOut(ratios);
if (values.only === "kinds") await kinds(ratios);
else if (values.only === "kafka") await kafkaDelays();
else if (values.only === "following") await following();
else if (values.only !== "fan-out" && values.against === undefined) await delays();
console.log(JSON.stringify({ name: "stream", ratios }));
