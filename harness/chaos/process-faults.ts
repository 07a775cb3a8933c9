import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { InstalledProgram } from "../../test/runtime/installed-program.js";
import { freePort } from "../../test/support/free-port.js";
import { BusyCallers } from "./busy-callers.js";
import { DatabaseServer } from "./database-server.js";
import { brief, type Fault, momentary } from "./fault.js";
import { clockStepMs, Supervised, serveArguments } from "./marketd.js";
import { promptDepthStreams } from "./stream-readers.js";
import type { TestedService } from "./tested-service.js";
import type { World } from "./world.js";

/** A worker that dies old is replaced at once, and one that dies young within a few seconds. */
const replacedMaxMs = 6_000;
/** A rolling restart takes so long at most: two workers start, and two drain. */
const rollMaxMs = 20_000;
/** A loader that is asked to end, twice if need be, has ended by then. */
const loaderEndMaxMs = 2_000;
/** Until a service of a fault's own is ready, on a machine that does much else, and until it has ended. */
const startMaxMs = 60_000;
const serviceEndMaxMs = 5_000;
/** Streams have heard of other decimals by then; a slow reader reads first what was sent before. */
const decimalsMaxMs = 8_000;
const hoursBack = 2;
const hourSeconds = 3_600;

/** Processes that are killed or stand still, wall clocks that step, and restarts in service. */
export function processFaults(world: World): Fault[] {
  return [
    ...killed(world),
    ...standingStill(world),
    ...clocks(world),
    hangUp(world),
    refusedBuild(world),
    termination(world),
    ...changedDecimals(world),
  ];
}

function killed({ loader, service, random }: World): Fault[] {
  return [
    { name: "loader killed", excuses: [], holdMs: momentary, inject: () => loader.end("SIGKILL"), heal: () => {} },
    {
      name: "worker killed",
      excuses: ["connection"],
      holdMs: momentary,
      inject: () => signalTo(random.pick(service.children()), "SIGKILL"),
      heal: () => {},
    },
    {
      name: "service killed",
      excuses: ["connection", "hot", "ledger"],
      holdMs: momentary,
      inject: () => service.end("SIGKILL"),
      heal: async () => {
        await service.ended(1_000);
        service.start();
      },
    },
  ];
}

/** SIGSTOP: from outside, a process that is stopped and one that hangs in a loop look the same. */
function standingStill({ loader, service, random }: World): Fault[] {
  let worker = 0;
  return [
    {
      name: "loader stopped",
      excuses: [],
      holdMs: brief,
      inject: () => loader.signal("SIGSTOP"),
      heal: () => loader.signal("SIGCONT"),
    },
    {
      name: "worker stopped",
      excuses: ["slow hot", "slow ledger"],
      holdMs: brief,
      inject: () => {
        worker = random.pick(service.children());
        signalTo(worker, "SIGSTOP");
      },
      heal: () => signalTo(worker, "SIGCONT"),
    },
    {
      name: "service stopped",
      excuses: ["slow hot", "slow ledger"],
      holdMs: brief,
      inject: () => service.signal("SIGSTOP"),
      heal: () => service.signal("SIGCONT"),
    },
  ];
}

/** The wall clock of our processes alone steps; nothing that lasts may notice. */
function clocks({ clock, service, random, report, within }: World): Fault[] {
  if (clock === undefined) {
    report.say("skipped: steps of the clock (libfaketime is not on this machine)");
    return [];
  }
  const stepTo = async (seconds: number): Promise<void> => {
    clock.step(seconds);
    await delay(clockStepMs);
  };
  const backAndWorkerKilled = async (): Promise<void> => {
    await stepTo(-hoursBack * hourSeconds);
    const before = service.children();
    signalTo(random.pick(before), "SIGKILL");
    await within(replacedMaxMs, () => service.children().some((pid) => !before.includes(pid)));
    const replaced = service.children().length === before.length;
    report.check(
      "a worker that dies after the clock stepped back is replaced",
      replaced,
      `not within ${replacedMaxMs} ms`,
    );
  };
  return [
    {
      name: "clock back 2 h",
      excuses: ["connection"],
      holdMs: momentary,
      inject: backAndWorkerKilled,
      heal: () => stepTo(0),
    },
  ];
}

/** SIGHUP: the workers are replaced one by one, and nobody's call fails. */
export function hangUp(world: TestedService): Fault {
  const { service, report } = world;
  return {
    name: "SIGHUP: restart in place",
    excuses: ["stream"],
    holdMs: momentary,
    inject: async () => {
      const callers = new BusyCallers(world.port);
      const before = { primary: service.pid, workers: service.children() };
      service.signal("SIGHUP");
      const isReplaced = (): boolean => {
        const now = service.children();
        return now.length === before.workers.length && !now.some((pid) => before.workers.includes(pid));
      };
      await world.within(rollMaxMs, () => isReplaced() || service.pid !== before.primary);
      const why = service.pid === before.primary ? `not within ${rollMaxMs} ms` : "the service ended";
      report.check("SIGHUP replaces every worker", isReplaced() && service.pid === before.primary, why);
      callers.checkNoneFailed(await callers.end(), "SIGHUP", report);
    },
    heal: () => {},
  };
}

/** A build whose workers cannot start. */
const withoutWorker = (text: string, file: string): string => (file === "worker.js" ? "process.exit(3);\n" : text);

/**
 * In a service of its own: a build that cannot start is refused, and then every worker dies. They must be replaced by
 * workers of the build that served before.
 */
function refusedBuild(world: World): Fault {
  const inject = async (): Promise<void> => {
    const installed = await InstalledProgram.of(dirname(dirname(world.settings.program)));
    const log = join(world.directory, "installed.log");
    const port = await freePort();
    const args = serveArguments(DatabaseServer.url(world.primary.port), port);
    const command = { name: "installed service", program: installed.program, environment: {}, log };
    const service = new Supervised(
      command,
      () => ({ args }),
      () => {},
    );
    try {
      service.start();
      await world.untilReady(service, port, startMaxMs);
      const before = service.children();
      await installed.replaceBuild(withoutWorker, { keep: true });
      service.signal("SIGHUP");
      const isRefused = () => existsSync(log) && readFileSync(log, "utf8").includes("are not replaced");
      world.report.check("a build that cannot start is refused", await world.within(rollMaxMs, isRefused), "");
      for (const pid of before) signalTo(pid, "SIGKILL");
      const isReplaced = async () => {
        const now = service.children();
        const isWhole = now.length === before.length && !now.some((pid) => before.includes(pid));
        return isWhole && (await world.isReady(port));
      };
      const name = "after a refused build, workers that die are replaced by ones of the build before";
      world.report.check(name, await world.within(startMaxMs, isReplaced), `not within ${startMaxMs} ms`);
    } finally {
      await service.stop(serviceEndMaxMs);
      await installed.remove();
    }
  };
  return { name: "refused build, workers killed", excuses: [], holdMs: momentary, inject, heal: () => {} };
}

/** SIGTERM: who waits for a response gets it, new connections are refused, and the service is started again. */
function termination(world: World): Fault {
  const { service, report } = world;
  return {
    name: "SIGTERM: drain and restart",
    excuses: ["refused", "stream", "hot", "ledger"],
    holdMs: momentary,
    inject: async () => {
      const callers = new BusyCallers(world.port);
      await delay(200);
      service.end("SIGTERM");
      const ended = await service.ended(rollMaxMs);
      report.check("the service ends after SIGTERM", ended, `not within ${rollMaxMs} ms`);
      callers.checkNoneReset(await callers.end(), "SIGTERM", report);
    },
    heal: () => service.start(),
  };
}

/**
 * The loader's peer dies in the middle of a transaction and nobody is told; the path for new connections is fine. The
 * loader must end when asked to, and the transaction that it leaves open must not hold up the next loader for long.
 */
export function deadLoaderPeer({ loader, loaderProxy, report }: World): Fault {
  return {
    name: "loader's peer dead in a transaction",
    excuses: [],
    holdMs: [1_500, 2_500],
    inject: async () => {
      const late = delay(3_000);
      await Promise.race([loaderProxy.killQuietlyAfter("UPDATE progress"), late]);
      loaderProxy.forgetText();
    },
    heal: async () => {
      loader.end("SIGTERM");
      if (!(await loader.ended(loaderEndMaxMs / 2))) loader.end("SIGTERM");
      const ended = await loader.ended(loaderEndMaxMs / 2);
      report.check("the loader ends after SIGTERM though its peer is dead", ended, `not within ${loaderEndMaxMs} ms`);
      if (!ended) loader.end("SIGKILL");
    },
  };
}

/**
 * A market's decimals change: at once, or in a backlog of blocks that is committed when the loader goes on. Every stream
 * must end for that reason; the judge finds updates in the new decimals on streams that began with the old ones.
 */
export function changedDecimals(world: TestedService): Fault[] {
  const { judge, loader } = world;
  const change = async (): Promise<void> => {
    judge.toldOfDecimals.clear();
    const { height } = judge.chain;
    judge.chain.redefine();
    await world.burst(4);
    await world.within(decimalsMaxMs, () => judge.chain.height > height);
  };
  const isWell = (): boolean => {
    // What a slow reader has not taken yet delays the reason, too; its updates are judged all the same.
    return promptDepthStreams.every((name) => judge.toldOfDecimals.has(name));
  };
  const common = { excuses: ["stream"], recoveryMaxMs: decimalsMaxMs, isWell } as const;
  return [
    { ...common, name: "decimals changed", holdMs: momentary, inject: change, heal: () => {} },
    {
      ...common,
      name: "decimals changed while the loader was stopped",
      holdMs: brief,
      inject: async () => {
        loader.signal("SIGSTOP");
        await change();
      },
      heal: () => loader.signal("SIGCONT"),
    },
  ];
}

function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has just ended.
  }
}
