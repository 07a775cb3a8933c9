import { setTimeout as delay } from "node:timers/promises";
import type { HistoryWorld } from "./history-world.js";

const calmMs = [1_500, 5_000] as const;
const blocksPerSecond = [4, 15, 40] as const;
const replicaStopMs = [300, 2_500] as const;
const leftOutMs = [1_000, 3_000] as const;
/** What a loader that forgets soon keeps, and for how long it is told so. */
const keepMinutes = [1, 2, 3] as const;
const forgettingMs = [3_000, 10_000] as const;
const loaderEndMaxMs = 10_000;

/** What happens to a world while readers ask. */
export function disturbances(world: HistoryWorld): Readonly<Record<string, () => Promise<void> | void>> {
  const { random } = world.context;
  const youngOne = world.services.find(({ name }) => name === "young");
  return {
    "loader killed": () => world.loader.end("SIGKILL"),
    "loader restarted": async () => {
      await world.loader.stop(loaderEndMaxMs);
      world.loader.start();
    },
    "service killed": () => youngOne?.process.end("SIGKILL"),
    "replica stopped": () => world.stopReplica(random.between(...replicaStopMs)),
    "loader told to forget": async () => {
      await keep(world, `${random.pick(keepMinutes)}m`);
      await delay(random.between(...forgettingMs));
      await keep(world, "all");
    },
    "past not kept": () => world.leaveOut("off", random.between(...leftOutMs)),
    ...(world.hasPreviousProgram
      ? { "earlier release in between": () => world.leaveOut("previous release", random.between(...leftOutMs)) }
      : {}),
    "many blocks at once": async () => {
      for (let block = 0; block < 150; block++) {
        world.makeBlock();
        await delay(6);
      }
    },
  };
}

async function keep(world: HistoryWorld, what: string): Promise<void> {
  await world.loader.stop(loaderEndMaxMs);
  world.keepBooks = what;
  world.loader.start();
}

/** One disturbance after the other until the signal; each at least once where there is time. */
export async function disturb(world: HistoryWorld, signal: AbortSignal): Promise<void> {
  const { random, report } = world.context;
  const all = Object.entries(disturbances(world));
  while (!signal.aborted) {
    for (const [name, happen] of random.shuffled(all)) {
      world.trade(random.pick(blocksPerSecond));
      await delay(random.between(...calmMs), undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      world.unexpectedEnds.length = 0;
      report.say(`${new Date().toISOString().slice(11, 19)} ${name}, block ${world.oracle.newest.index}`);
      await happen();
      report.check(`${name}: no process ends by itself`, world.unexpectedEnds.length === 0, () =>
        world.unexpectedEnds.join("; "),
      );
    }
  }
}
