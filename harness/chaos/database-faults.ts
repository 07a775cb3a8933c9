import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Connection } from "mysql2/promise";
import { brief, type Fault, momentary } from "./fault.js";
import { recoveryMaxMs } from "./scoreboard.js";
import type { World } from "./world.js";

/** Enough blocks that the tables must grow while the disk is full. */
const burstBlocks = 60;
/** Longer than a statement may wait for a lock, and than connections may be silent unnoticed. */
const longer = [1_500, 2_500] as const;
const slowNetworkMs = 60;
/** How long a statement of the loader is waited for. */
const statementAwaitedMs = 3_000;
const catchUpMaxMs = 15_000;

/** Databases that are killed, stand still, are full, read-only, locked, behind, or another one. */
export function databaseFaults(world: World): Fault[] {
  return [...servers(world), ...networks(world), ...writes(world), laggingReplica(world), ...replaced(world)];
}

function servers({ primary }: World): Fault[] {
  return [
    {
      name: "database killed",
      excuses: ["ledger"],
      holdMs: brief,
      inject: () => primary.kill(),
      heal: () => primary.start(),
    },
    {
      name: "database stopped",
      excuses: ["ledger", "slow ledger"],
      holdMs: longer,
      inject: () => primary.pause(),
      heal: () => primary.resume(),
    },
  ];
}

/** What the network between marketd and its database does. */
function networks({ serviceProxy, loaderProxy }: World): Fault[] {
  const both = [serviceProxy, loaderProxy];
  const open = (): void => {
    for (const proxy of both) proxy.setPath({ kind: "open" });
  };
  return [
    {
      name: "network silent, then back",
      excuses: ["ledger", "slow ledger"],
      holdMs: longer,
      inject: () => {
        for (const proxy of both) proxy.setPath({ kind: "silent" });
      },
      heal: open,
    },
    {
      // New connections pass from the start; those of before never hear anything again.
      name: "connections half open",
      excuses: ["ledger", "slow ledger"],
      holdMs: longer,
      inject: () => {
        for (const proxy of both) proxy.killQuietly();
      },
      heal: () => {},
    },
    {
      name: "connection half open while the server waits for rows",
      excuses: [],
      holdMs: longer,
      inject: async () => {
        await Promise.race([loaderProxy.killQuietlyAfter("LOAD DATA"), delay(statementAwaitedMs)]);
        loaderProxy.forgetText();
      },
      heal: () => {},
    },
    {
      name: "connections dropped",
      excuses: ["ledger"],
      holdMs: brief,
      inject: () => {
        for (const proxy of both) proxy.setPath({ kind: "closed", reset: false });
      },
      heal: open,
    },
    {
      name: "connections reset",
      excuses: ["ledger"],
      holdMs: brief,
      inject: () => {
        for (const proxy of both) proxy.setPath({ kind: "closed", reset: true });
      },
      heal: open,
    },
    {
      name: "network slow",
      excuses: ["slow ledger"],
      holdMs: brief,
      inject: () => {
        for (const proxy of both) proxy.setPath({ kind: "slow", delayMs: slowNetworkMs });
      },
      heal: open,
    },
  ];
}

/** The database takes no rows. Readers must not notice, and the loader must wait. */
function writes(world: World): Fault[] {
  const { primary, disk } = world;
  let locker: Connection | undefined;
  const faults: Fault[] = [
    {
      name: "database read-only",
      excuses: [],
      holdMs: brief,
      inject: async () => void (await primary.run("SET GLOBAL read_only = 1")),
      heal: async () => void (await primary.run("SET GLOBAL read_only = 0")),
    },
    {
      name: "lock held by another session",
      excuses: [],
      holdMs: longer,
      inject: async () => {
        locker = await primary.connect();
        locker.on("error", () => {});
        await locker.query("SET SESSION innodb_lock_wait_timeout = 30");
        await locker.query("START TRANSACTION");
        await locker.query("SELECT * FROM marketd.progress FOR UPDATE");
      },
      heal: () => locker?.destroy(),
    },
  ];
  if (disk === undefined) {
    world.report.say("skipped: a full disk (it takes root to mount a small one)");
    return faults;
  }
  return [...faults, diskFull(world, disk.path)];
}

/** The primary's disk has no byte left. Nobody notices, unless the server ends by itself: then it is a killed database. */
function diskFull(world: World, directory: string): Fault {
  const { primary, scoreboard, report } = world;
  const ballast = join(directory, "ballast");
  const restart = async (): Promise<void> => {
    scoreboard.excuse("ledger");
    rmSync(ballast, { force: true });
    await primary.start();
    scoreboard.healAgain();
  };
  return {
    name: "disk full",
    excuses: [],
    holdMs: brief,
    inject: async () => {
      primary.watch(
        () => void restart().catch((error: unknown) => report.check("disk full: starts", false, `${error}`)),
      );
      const { bavail, bsize } = statfsSync(directory);
      await once(spawn("fallocate", ["-l", String(bavail * bsize), ballast], { stdio: "ignore" }), "close");
      await world.burst(burstBlocks);
    },
    heal: () => rmSync(ballast, { force: true }),
    restore: () => primary.watch(undefined),
  };
}

/**
 * One balancer hands out connections to a primary and to a replica that lags more and more. Over when the replica has
 * caught up and the balancer knows the primary alone.
 */
function laggingReplica(world: World): Fault {
  const { primary, replica, serviceProxy } = world;
  const progressOf = async (server: typeof primary): Promise<{ readonly store: string; readonly sequence: bigint }> => {
    const [row] = await server.run("SELECT store_id, stream_sequence FROM marketd.progress").catch(() => []);
    return { store: String(row?.["store_id"] ?? ""), sequence: BigInt(String(row?.["stream_sequence"] ?? 0)) };
  };
  return {
    name: "lagging replica behind one balancer",
    excuses: ["ledger", "slow ledger"],
    holdMs: [2_000, 4_000],
    inject: async () => {
      // It is to know the chain and to lag behind it: after a replacement it may still hold the one before.
      const { store } = await progressOf(primary);
      await world.within(catchUpMaxMs, async () => store !== "" && (await progressOf(replica)).store === store);
      await replica.run("STOP REPLICA SQL_THREAD");
      serviceProxy.balance([primary.port, replica.port]);
      serviceProxy.cut();
      world.exportBurst = true;
    },
    heal: async () => {
      world.exportBurst = false;
      serviceProxy.balance([primary.port]);
      await replica.run("START REPLICA SQL_THREAD");
      const wanted = await progressOf(primary);
      await world.within(catchUpMaxMs, async () => (await progressOf(replica)).sequence >= wanted.sequence);
      serviceProxy.cut();
    },
  };
}

/** The database is dropped, and another chain is loaded: one of other accounts, or the same one up to a lower height. */
function replaced(world: World): Fault[] {
  const replace = (name: string, how: "another" | "shorter"): Fault => ({
    name,
    excuses: ["stream", "hot", "ledger"],
    holdMs: momentary,
    inject: () => world.replaceChain(how),
    heal: async () => {
      await world.within(catchUpMaxMs, () => world.commits.height > 0);
      world.judge.forgetPrevious(recoveryMaxMs);
    },
  });
  return [
    replace("database replaced: another chain", "another"),
    replace("database replaced: same chain, shorter", "shorter"),
  ];
}
