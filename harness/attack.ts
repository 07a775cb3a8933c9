import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { Random } from "../src/simulator/random.js";
import type { Attack } from "./attack/attack.js";
import { type BystanderOrder, type ProbeReading, probes } from "./attack/bystander-messages.js";
import { fuzzers } from "./attack/fuzz.js";
import { http1Attacks } from "./attack/http1-attacks.js";
import { http2Attacks } from "./attack/http2-attacks.js";
import { limitAttacks } from "./attack/limit-attacks.js";
import { hostileLists, longLists, longPreferences, packedLists } from "./attack/list-attacks.js";
import { loadAttacks } from "./attack/load-attacks.js";
import { pieceFloods } from "./attack/piece-floods.js";
import { unreadStreams } from "./attack/stream-attacks.js";
import { Tally } from "./attack/tally.js";
import { type Holding, Target } from "./attack/target.js";
import { Report } from "./support/report.js";
import { readSettings } from "./support/settings.js";
import { slowness } from "./support/slowness.js";

/**
 * How long the service may take to let go of what an attack held. A stream behind which requests wait is not read, so that
 * its client's end is seen by its next heartbeats, 15 s apart.
 */
const settleMaxMs = 40_000;

/** How long it may take until it answers everybody again. */
const recoveryMaxMs = 10_000;

/** How long an attack may go on beyond its round, until its connections have their responses or give up. */
const overrunMaxMs = 120_000;

/** What the command and its workers hold together at most. */
const residentMaxBytes = 1_610_612_736;
/** Descriptors that may differ from those before: connections of the database pool, and those of the bystander. */
const descriptorsSpare = 24;

/**
 * The 99th percentile of the well-behaved client's calls may exceed that of a bare server, requested meanwhile, by less
 * than this. A pause of the machine delays both, and a short round has so few calls that one pause decides.
 */
const bystanderMaxMs = 500 * slowness;

/** The same for health on its own listener. */
const healthMaxMs = 100 * slowness;

/** Resident memory may grow over three rounds by this share of what was resident after the first of all. */
const residentGrowthMax = 0.1;

/** Rounds of each attack where there is time; the last is compared with the last but two. */
const roundsOfLongRuns = 3;

/**
 * More rounds where memory has grown by more: the heap of each worker grows to what the largest share of an attack's
 * connections needs, which a worker may get late, and stops. Memory that is lost in each round does not stop.
 */
const roundsMore = 6;

/** A run of so many seconds has three rounds of each attack, and opens {@link connectionsOfLongRuns} for each. */
const longRunSeconds = 600;

/** Connections that a long run opens for each attack, over all rounds. */
const connectionsOfLongRuns = 1_000;

/** Connections that an attack which waits for a limit of the service opens in a short run. */
const patientConnections = 140;

/** The least time of a round: 50 calls for cached responses a second and 50 of health; a percentile takes 100. */
const roundMinMs = 2_000;

const cheap = [
  ...http1Attacks,
  ...pieceFloods,
  ...http2Attacks,
  ...loadAttacks,
  hostileLists,
  longLists,
  longPreferences,
  packedLists,
  unreadStreams,
  ...limitAttacks,
].filter((attack) => attack.minSeconds === undefined);
const patient = [...http1Attacks, ...http2Attacks].filter((attack) => attack.minSeconds !== undefined);

/** A well-behaved client in a thread of its own, beside all attacks. */
class Bystander {
  readonly #worker: Worker;
  readonly #bareServer: ChildProcess;

  private constructor(order: BystanderOrder, bareServer: ChildProcess) {
    this.#worker = new Worker(new URL("./attack/bystander.js", import.meta.url), { workerData: order });
    this.#bareServer = bareServer;
  }

  static async start(order: Omit<BystanderOrder, "bareUrl">): Promise<Bystander> {
    const bareServer = fork(new URL("./attack/bare-server.js", import.meta.url));
    const [port] = await once(bareServer, "message");
    return new Bystander({ ...order, bareUrl: `http://127.0.0.1:${port}` }, bareServer);
  }

  /** What it saw since the last call. */
  async read(): Promise<ProbeReading[]> {
    const answered = new Promise<ProbeReading[]>((resolve) => this.#worker.once("message", resolve));
    this.#worker.postMessage("read");
    return answered;
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
    this.#bareServer.disconnect();
  }
}

class AttackRun {
  readonly #report: Report;
  readonly #target: Target;
  readonly #bystander: Bystander;
  readonly #seed: number;
  readonly #hasAdminListener: boolean;
  readonly #rows: (string | number)[][] = [
    [
      "attack",
      "connections",
      "requests",
      "answers",
      "p99 ms",
      "health p99",
      "bare p99",
      "refused",
      "failed",
      "RSS MiB",
    ],
  ];
  readonly #totals = { connections: 0, requests: 0, mutated: 0 };
  #workers: readonly number[] = [];
  #descriptors = 0;
  #rounds = 0;

  constructor(report: Report, target: Target, bystander: Bystander, seed: number) {
    this.#report = report;
    this.#target = target;
    this.#bystander = bystander;
    this.#seed = seed;
    this.#hasAdminListener = target.adminUrl !== `http://127.0.0.1:${target.port}`;
  }

  /** Runs each attack alone, round after round, and the patient ones together first. */
  async run(seconds: number, chosen: (attack: Attack) => boolean): Promise<void> {
    const startedAt = performance.now();
    const isLong = seconds >= longRunSeconds;
    const patientAttacks = patient.filter(chosen);
    const attacks = [...cheap, ...fuzzers].filter(chosen);
    await this.#begin(false);
    const width = isLong ? connectionsOfLongRuns / 2 : patientConnections;
    if (patientAttacks.length > 0) await this.#patient(patientAttacks, width);
    const rounds = isLong ? roundsOfLongRuns : 1;
    const leftMs = seconds * 1000 - (performance.now() - startedAt);
    const roundMs = Math.max(roundMinMs, leftMs / (attacks.length * rounds));
    for (const attack of attacks) await this.#cheap(attack, rounds, roundMs);
    if (isLong && patientAttacks.length > 0) await this.#patient(patientAttacks, width);
    this.#report.table(this.#rows);
    const { connections, requests, mutated } = this.#totals;
    this.#report.say(`${connections} connections, ${requests} requests, ${mutated} of them mutated`);
  }

  /** Rounds of attacks that mostly wait, all at once. */
  async #patient(attacks: readonly Attack[], connections: number): Promise<void> {
    const tally = new Tally();
    await this.#bystander.read();
    await Promise.all(attacks.map((attack) => this.#round(attack, tally, 0, connections)));
    await this.#judge(attacks.map(({ name }) => name).join(", "), tally);
  }

  async #cheap(attack: Attack, rounds: number, roundMs: number): Promise<void> {
    const held: number[] = [];
    const growth = () => ((held.at(-1) ?? 0) - (held.at(-rounds) ?? 0)) / (held[0] ?? 0);
    const isGrowing = () => rounds > 1 && growth() > residentGrowthMax;
    for (let n = 1; n <= rounds || (isGrowing() && n <= rounds + roundsMore); n++) {
      const tally = new Tally();
      await this.#bystander.read();
      await this.#round(attack, tally, roundMs, rounds === 1 ? 1 : Math.ceil(connectionsOfLongRuns / rounds));
      if (fuzzers.includes(attack)) this.#totals.mutated += tally.requests;
      const after = await this.#judge(rounds === 1 ? attack.name : `${attack.name}, round ${n}`, tally);
      held.push(after.residentBytes);
    }
    if (rounds === 1) return;
    const text = () => `${held.map(mebibytes).join(", ")} MiB after each round`;
    const name = `${attack.name}: memory of the last ${rounds} rounds within 10%`;
    this.#report.check(name, !isGrowing(), text);
  }

  async #round(attack: Attack, tally: Tally, roundMs: number, connections: number): Promise<void> {
    const random = new Random(this.#seed, `${attack.name} ${this.#rounds++}`);
    const until = performance.now() + roundMs;
    const attacking = attack.run({ target: this.#target, random, tally, until, connections });
    const running = attacking.catch((error: unknown) => tally.wrong(`the attack ended with ${error}`));
    await Promise.race([running, sleep(roundMs + overrunMaxMs, undefined, { ref: false })]);
  }

  /** Waits until the service has let go, and checks everything that an attack must not change. */
  async #judge(name: string, tally: Tally): Promise<Holding> {
    const report = this.#report;
    const readings = await this.#bystander.read();
    const settled = await this.#settle();
    const recovered = await this.#recovered();
    report.check(`${name}: the command still runs`, this.#target.alive);
    const dead = this.#workers.filter((pid) => !settled.workers.includes(pid));
    report.check(`${name}: no worker has ended`, dead.length === 0, `${dead.length} ended; ${this.#lastWords()}`);
    const kept = settled.descriptors - this.#descriptors;
    report.check(`${name}: descriptors are given back`, kept <= descriptorsSpare, `${kept} more than at the start`);
    const residentText = `${mebibytes(settled.residentBytes)} MiB`;
    report.check(`${name}: memory is bounded`, settled.residentBytes <= residentMaxBytes, residentText);
    for (const failure of tally.failures) report.check(`${name}: answers`, false, failure);
    if (tally.failures.length === 0) report.check(`${name}: answers`, true);
    const bystander = this.#judgeBystander(name, readings);
    this.#rows.push([
      name,
      tally.connections,
      tally.requests,
      tally.summary,
      ...bystander,
      mebibytes(settled.residentBytes),
    ]);
    this.#totals.connections += tally.connections;
    this.#totals.requests += tally.requests;
    report.check(`${name}: everybody is answered afterwards`, recovered, `not within ${recoveryMaxMs} ms; restarted`);
    await this.#begin(!recovered || kept > descriptorsSpare);
    report.say(
      `${name}: ${tally.connections} connections, ${tally.requests} requests; ${[tally.summary, ...tally.notes].join("; ")}`,
    );
    return settled;
  }

  #judgeBystander(name: string, readings: readonly ProbeReading[]): number[] {
    const of = (probe: ProbeReading["probe"]) => readings.find((reading) => reading.probe === probe);
    const hot = ["kept connection", "new connection", "gRPC"] as const;
    const hotMs = percentile99(hot.flatMap((probe) => of(probe)?.latenciesMs ?? []));
    const healthMs = percentile99(of("health")?.latenciesMs ?? []);
    const bareMs = percentile99(of("bare server")?.latenciesMs ?? []);
    const refused = readings.reduce((sum, reading) => sum + reading.refused, 0);
    const failures = probes.flatMap((probe) => (of(probe)?.failures ?? []).map((failure) => `${probe}: ${failure}`));
    const healthLimitMs = this.#hasAdminListener ? healthMaxMs : bystanderMaxMs;
    const report = this.#report;
    const each = hot.map((probe) => `${probe} ${percentile99(of(probe)?.latenciesMs ?? [])} ms`).join(", ");
    report.check(
      `${name}: others are answered in time`,
      hotMs < bystanderMaxMs + bareMs,
      `99th percentile ${hotMs} ms (${each}), of a bare server ${bareMs} ms; limit ${Math.round(bystanderMaxMs)} ms above`,
    );
    report.check(
      `${name}: health is answered in time`,
      healthMs < healthLimitMs + bareMs,
      `99th percentile ${healthMs} ms, of a bare server ${bareMs} ms; limit ${Math.round(healthLimitMs)} ms above`,
    );
    report.check(`${name}: others get responses`, failures.length === 0, () => summary(failures));
    return [hotMs, healthMs, bareMs, refused, failures.length];
  }

  /** Notes what the service holds before the next attack, after a restart where the last one left it harmed. */
  async #begin(restart: boolean): Promise<void> {
    if (restart) await this.#target.restart();
    const { workers, descriptors } = this.#target.holding();
    this.#workers = workers;
    this.#descriptors = descriptors;
  }

  async #recovered(): Promise<boolean> {
    const until = performance.now() + recoveryMaxMs;
    while (performance.now() < until) {
      if (await this.#target.isResponsive()) return true;
      await sleep(100);
    }
    return false;
  }

  async #settle(): Promise<Holding> {
    const until = performance.now() + settleMaxMs;
    for (;;) {
      const holding = this.#target.holding();
      if (holding.descriptors - this.#descriptors <= descriptorsSpare || performance.now() > until) return holding;
      await sleep(100);
    }
  }

  #lastWords(): string {
    const lines = this.#target.takeLog().filter((line) => !line.startsWith("{"));
    return lines
      .filter((line) => /error|warning/i.test(line))
      .slice(0, 3)
      .join(" | ");
  }
}

function percentile99(latenciesMs: readonly number[]): number {
  const sorted = [...latenciesMs].sort((a, b) => a - b);
  return Math.round(sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0);
}

function summary(failures: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const failure of failures) counts.set(failure, (counts.get(failure) ?? 0) + 1);
  return [...counts].map(([failure, count]) => `${failure} (${count} times)`).join("; ");
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / 2 ** 20);
}

/** Whether an attack is one of those that `--attacks` names by parts of their names. */
function isChosen({ name }: Attack, parts: string | undefined): boolean {
  return parts === undefined || parts.split(",").some((part) => name.includes(part.trim()));
}

const settings = readSettings("attack", 60, ["attacks"]);
const report = new Report();
report.say(`attacking ${settings.program} for ${settings.seconds} s with --seed ${settings.seed}`);
const target = await Target.start(settings.program, settings.seed);
const { port, adminUrl, marketId } = target;
try {
  const bystander = await Bystander.start({ port, adminUrl, marketId });
  try {
    await sleep(1_000);
    const run = new AttackRun(report, target, bystander, settings.seed);
    await run.run(settings.seconds, (attack) => isChosen(attack, settings.more["attacks"]));
  } finally {
    await bystander.stop();
  }
} finally {
  await target.stop();
}
report.finish();
