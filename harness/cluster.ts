import { existsSync } from "node:fs";
import { findPrograms } from "../src/embedded/server-programs.js";
import { chosenScenarios, FaultRun, secondsForAll } from "./chaos/fault-run.js";
import { RandomSource } from "./chaos/random-source.js";
import { Scoreboard } from "./chaos/scoreboard.js";
import { clusterScenarios } from "./cluster/cluster-faults.js";
import { type ClusterParts, ClusterWorld } from "./cluster/cluster-world.js";
import { galeraLibraries } from "./cluster/galera-node.js";
import { Report } from "./support/report.js";
import { readSettings } from "./support/settings.js";

/**
 * npm run cluster -- [--seconds S] [--seed N] [--program PATH] [--faults NAME,…]
 *
 * Three Galera nodes and an asynchronous replica behind HAProxy, under the readers and the judge of `npm run chaos`,
 * while nodes die and come back (docs/reliability.md). It ends with `N passed, N failed`; with exit code 3 and one line
 * where this machine lacks Galera or HAProxy.
 */

/** This machine lacks a program. */
const exitLacking = 3;

const settings = readSettings("cluster", secondsForAll, ["faults"]);
const parts = await findParts();
const report = new Report();
const random = new RandomSource(settings.seed);
const scoreboard = new Scoreboard(report);
report.say(`seed ${settings.seed}; ${settings.program}`);
const world = await ClusterWorld.create({ settings, report, random, scoreboard }, parts);
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void world.close().finally(() => process.exit(130)));
}
try {
  const run = new FaultRun(world, scoreboard);
  const scenarios = chosenScenarios(clusterScenarios(world), settings.more["faults"]);
  await run.startReaders();
  await run.suffer(scenarios);
  await run.end();
  run.summarise(scenarios.flat());
} finally {
  await world.close();
}
report.finish();
// Connections that a client's library holds on to.
setTimeout(() => process.exit(), 1_000).unref();

async function findParts(): Promise<ClusterParts> {
  const names = ["haproxy", "mariadbd", "mariadb-install-db"];
  const programs = await findPrograms(names);
  const galera = galeraLibraries.find((path) => existsSync(path));
  const haproxy = programs.get("haproxy");
  const lacking = names.filter((name) => !programs.has(name));
  if (galera === undefined) lacking.push("the Galera library");
  if (galera !== undefined && haproxy !== undefined && lacking.length === 0) return { galera, haproxy };
  process.stderr.write(`marketd: ${lacking.join(", ")} not found; on Debian: mariadb-server galera-4 haproxy\n`);
  process.exit(exitLacking);
}
