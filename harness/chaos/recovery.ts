import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { slowness } from "../support/slowness.js";
import type { Fault } from "./fault.js";
import type { Episode, Scoreboard } from "./scoreboard.js";
import type { TestedService } from "./tested-service.js";

/** A fault from which nobody recovers within this time is given up. */
export const givenUpMs = 15_000 * slowness;
/** Everything must stay right for so long. */
const steadyMs = 250;
/** A call that is open for longer keeps the fault from being over. */
const openCallMaxMs = 1_500;
const pollMs = 25;
const theFaultsOwn = "what this fault itself asks for";

/** How a fault was recovered from. */
export interface Recovery {
  /** From the fault's end until the last reader was right and the loader had caught up; undefined: it was given up. */
  readonly seconds: number | undefined;
  /** How long our processes waited for a core meanwhile: other programs' doing, and not the service's. */
  readonly waitedSeconds: number;
  /** Who is not right yet, or was so last. */
  readonly missing: string[];
}

/** Waits until every reader has had a right response since the fault's end, and the loader has what was there then. */
export async function awaitRecovery(
  world: TestedService,
  scoreboard: Scoreboard,
  episode: Episode,
  fault: Fault,
): Promise<Recovery> {
  const healedAt = (): number => episode.healedAt ?? 0;
  const height = world.judge.chain.height;
  const waited = new CoreWaits(world);
  let wellBy: number | undefined;
  let steadySince: number | undefined;
  while (performance.now() < healedAt() + givenUpMs + 1_000 * waited.seconds()) {
    await delay(pollMs);
    const polledAt = performance.now();
    const missing = missingClients(world, scoreboard, height);
    wellBy ??= (await fault.isWell?.()) === false ? undefined : performance.now();
    if (wellBy === undefined) missing.push(theFaultsOwn);
    if (missing.length > 0) {
      steadySince = undefined;
      continue;
    }
    steadySince ??= polledAt;
    if (polledAt - steadySince < steadyMs) continue;
    const last = Math.max(
      wellBy ?? 0,
      world.commits.seenAt(height) ?? 0,
      ...scoreboard.clients.map(({ rightBy }) => rightBy ?? 0),
    );
    const seconds = Math.max(0, last - healedAt()) / 1_000;
    const slowest = scoreboard.clients.filter(({ rightBy }) => rightBy === last).map(({ name }) => name);
    return { seconds, waitedSeconds: waited.seconds(), missing: slowest.length === 0 ? ["the loader"] : slowest };
  }
  return {
    seconds: undefined,
    waitedSeconds: waited.seconds(),
    missing: [...missingClients(world, scoreboard, height), ...(wellBy === undefined ? [theFaultsOwn] : [])],
  };
}

export function isInTime({ seconds, waitedSeconds }: Recovery, maxMs: number): boolean {
  return seconds !== undefined && seconds <= maxMs / 1_000 + waitedSeconds;
}

function missingClients(world: TestedService, scoreboard: Scoreboard, height: number): string[] {
  const now = performance.now();
  const missing = scoreboard.clients
    .filter(({ isOn }) => isOn())
    .filter(({ rightBy, openSince }) => rightBy === undefined || now - (openSince ?? now) > openCallMaxMs)
    .map(({ name, lastFailure }) => `${name} (${lastFailure.slice(0, 100)})`);
  if (world.commits.seenAt(height) === undefined)
    missing.push(`the loader (block ${world.commits.height} of ${height})`);
  return missing;
}

/** How long processes that were ready to run waited for a core, as Linux counts it for their main threads. */
class CoreWaits {
  readonly #before = new Map<number, number>();

  constructor(private readonly world: TestedService) {
    for (const pid of this.#pids()) this.#before.set(pid, waitedSeconds(pid));
  }

  /** The wait since then of the process that waited longest. */
  seconds(): number {
    return Math.max(...this.#pids().map((pid) => Math.max(0, waitedSeconds(pid) - (this.#before.get(pid) ?? 0))));
  }

  #pids(): number[] {
    const { service, loader } = this.world;
    const all = [process.pid, service.pid, loader.pid, ...service.children()];
    return all.filter((pid) => pid !== undefined);
  }
}

function waitedSeconds(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[1]) / 1e9;
  } catch {
    return 0;
  }
}
