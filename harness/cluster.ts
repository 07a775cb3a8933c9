import { existsSync } from "node:fs";
import { findPrograms, findServerPrograms } from "../src/embedded/server-programs.js";
import { chosenScenarios, FaultRun, secondsForAll, withWorld } from "./chaos/fault-run.js";
import { RandomSource } from "./chaos/random-source.js";
import { Scoreboard } from "./chaos/scoreboard.js";
import { clusterScenarios } from "./cluster/cluster-faults.js";
import { type ClusterParts, ClusterWorld } from "./cluster/cluster-world.js";
import { galera, galeraLibraries } from "./cluster/galera-node.js";
import { groupReplication } from "./cluster/group-node.js";
import { Report } from "./support/report.js";
import { readSettings } from "./support/settings.js";

/**
 * npm run cluster -- [--engine galera|group-replication] [--seconds S] [--seed N] [--program PATH] [--faults NAME,…]
 *
 * Three nodes of a Galera cluster or of a MySQL group, and an asynchronous replica, behind HAProxy, under the readers and
 * the judge of `npm run chaos`, while nodes die and come back (docs/reliability.md). It ends with `N passed, N failed`;
 * with exit code 3 and one line where this machine lacks a program.
 */

const exitUsage = 2;
/** This machine lacks a program. */
const exitLacking = 3;

const settings = readSettings("cluster", secondsForAll, ["faults", "engine"]);
const parts = await findParts();
const report = new Report();
const random = new RandomSource(settings.seed);
const scoreboard = new Scoreboard(report);
report.say(`seed ${settings.seed}; ${settings.program}`);
await withWorld(await ClusterWorld.create({ settings, report, random, scoreboard }, parts), async (world) => {
  const run = new FaultRun(world, scoreboard);
  const scenarios = chosenScenarios(clusterScenarios(world), settings.more["faults"]);
  await run.startReaders();
  await run.suffer(scenarios);
  await run.end();
  run.summarise(scenarios.flat());
});
report.finish();
// Connections that a client's library holds on to.
setTimeout(() => process.exit(), 1_000).unref();

async function findParts(): Promise<ClusterParts> {
  const engine = settings.more["engine"] ?? "galera";
  if (engine !== "galera" && engine !== "group-replication") {
    return stop(exitUsage, `--engine is galera or group-replication, not ${engine}`);
  }
  const haproxy = (await findPrograms(["haproxy"])).get("haproxy");
  if (haproxy === undefined) return stop(exitLacking, "haproxy not found; it is Debian's haproxy");
  const kind = (await findServerPrograms())?.kind;
  if (engine === "group-replication") {
    if (kind === "mysql") return { engine: await groupReplication(), haproxy };
    return stop(exitLacking, "--engine group-replication takes MySQL: add --database mysql-9.7");
  }
  const library = galeraLibraries.find((path) => existsSync(path));
  if (kind === "mariadb" && library !== undefined) return { engine: galera(library), haproxy };
  return stop(exitLacking, "--engine galera takes MariaDB and Galera; on Debian: mariadb-server galera-4");
}

function stop(code: number, text: string): never {
  process.stderr.write(`marketd: ${text}\n`);
  process.exit(code);
}
