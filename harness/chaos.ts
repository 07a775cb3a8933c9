import { databaseFaults } from "./chaos/database-faults.js";
import { descriptorsExhausted } from "./chaos/descriptors-fault.js";
import { chosenScenarios, FaultRun, secondsForAll, withWorld } from "./chaos/fault-run.js";
import { hostileSettings } from "./chaos/hostile-settings.js";
import { deadLoaderPeer, processFaults } from "./chaos/process-faults.js";
import { RandomSource } from "./chaos/random-source.js";
import { Scoreboard } from "./chaos/scoreboard.js";
import { SteppingClock } from "./chaos/stepping-clock.js";
import { sufferTopicFaults, topicFaultNames } from "./chaos/topic-faults.js";
import { World } from "./chaos/world.js";
import { Report } from "./support/report.js";
import { readSettings } from "./support/settings.js";

/**
 * npm run chaos -- [--seconds S] [--seed N] [--program PATH] [--faults NAME,…]
 *
 * Readers on every protocol, and a loader, while one fault after the other is injected and healed. Every response is held
 * against an independent fold of the network's events (docs/reliability.md). It ends with `N passed, N failed`.
 */

const settings = readSettings("chaos", secondsForAll, ["faults"]);
const report = new Report();
const random = new RandomSource(settings.seed);
const scoreboard = new Scoreboard(report);
report.say(`seed ${settings.seed}; ${settings.program}`);
const wanted = settings.more["faults"]?.split(",").map((part) => part.trim());
const ofTopics = topicFaultNames.filter((name) => wanted?.some((part) => name.includes(part)) ?? true);
// Named alone, they need nothing of the rest.
if (wanted?.every((part) => ofTopics.some((name) => name.includes(part))) !== true) {
  await withWorld(await World.create({ settings, report, random, scoreboard }), run);
}
await sufferTopicFaults(ofTopics, { report, random, program: settings.program });
report.finish();
// Connections that a client's library holds on to.
setTimeout(() => process.exit(), 1_000).unref();

async function run(world: World): Promise<void> {
  const run = new FaultRun(world, scoreboard);
  await run.startReaders();
  const steppingClock = watchesClock() ? SteppingClock.start(world, run.signal) : undefined;
  const faults = [
    ...processFaults(world),
    deadLoaderPeer(world),
    ...databaseFaults(world),
    ...hostileSettings(world),
    descriptorsExhausted(world),
  ];
  const chosen = chosenScenarios(
    faults.map((fault) => [fault]),
    settings.more["faults"],
  );
  await run.suffer(chosen);
  await steppingClock?.end();
  await run.end();
  if (steppingClock !== undefined) scoreboard.adopt(steppingClock.scoreboard);
  run.summarise(chosen.flat());
}

function watchesClock(): boolean {
  return settings.more["faults"]?.includes("clock") ?? true;
}
