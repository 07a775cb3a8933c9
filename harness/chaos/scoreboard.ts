import { readFileSync } from "node:fs";
import type { Report } from "../support/report.js";
import { slowness } from "../support/slowness.js";
import type { CallFailure } from "./call-failure.js";
import { codes } from "./call-failure.js";

/** A fault ends, and this much later everything must be right again, unless the fault has a limit of its own. */
export const recoveryMaxMs = 2_000 * slowness;

/** Share of the time in which something waits for a core; this harness alone on two cores stays well below. */
const busyPercent = 80;

/** What a fault may do to callers; what it has no leave for is a wrong response. */
export type Excuse =
  /** Markets, depth, market data and opening a stream may be refused with UNAVAILABLE or RESOURCE_EXHAUSTED. */
  | "hot"
  /** The same for what comes from the database: ledger pages, exports, bundles. */
  | "ledger"
  /** These may take longer than their callers wait. */
  | "slow hot"
  | "slow ledger"
  /** Connections may be refused, or end without a response. */
  | "connection"
  /** Connections may be refused, but those that wait for a response get it. */
  | "refused"
  /** Open streams may end with UNAVAILABLE. */
  | "stream";

export const allExcuses: readonly Excuse[] = [
  "hot",
  "ledger",
  "slow hot",
  "slow ledger",
  "connection",
  "refused",
  "stream",
];

/** A replay reads the past from the database, and is a stream like others then. So is a list that becomes a stream. */
export type ClientKind = "hot" | "ledger" | "stream" | "replay";

/** How much later than the end of its connections the end of a process may be heard of, in milliseconds. */
const endHeardMsMax = 100;

/** Results in one row of the table. */
export interface Row {
  readonly name: string;
  times: number;
  right: number;
  honest: number;
  wrong: number;
  /** What was wrong with the first wrong response. */
  firstWrong?: string;
  recoverySeconds: number | undefined;
}

/** One fault, from its injection until everything was right again. */
export interface Episode {
  readonly row: Row;
  readonly excuses: Set<Excuse>;
  readonly recoveryMaxMs: number;
  readonly injectedAt: number;
  healedAt: number | undefined;
  /** Everything was right again, or it was given up. */
  closedAt: number | undefined;
}

/** How one client fares. */
export class ClientState {
  /** Start of the call that has not ended. */
  openSince: number | undefined;
  /** When it first had a right response, to a call made after the last failure and after the last fault's end. */
  rightBy: number | undefined;
  lastFailure = "nothing answered yet";

  constructor(
    readonly name: string,
    readonly kind: ClientKind,
    /** Whether it calls at all now. */
    readonly isOn: () => boolean,
  ) {}
}

/** Episodes that are remembered: a slow reader hears of one when it has read what was sent before. */
const episodesMax = 20;

/** Wrong responses to one reader that are told in full for each row: one that is always wrong must not hide others. */
const wrongReportsMax = 3;

/** Counts responses by the fault during which they came, and knows who is well again since. */
export class Scoreboard {
  readonly rows = new Map<string, Row>();
  readonly clients: ClientState[] = [];
  readonly #episodes: Episode[] = [];
  readonly #honest = new Map<string, number>();
  readonly #reported = new Map<string, number>();
  #current: Row;

  constructor(private readonly report: Report) {
    this.#current = this.#row("no fault");
  }

  client(name: string, kind: ClientKind, isOn: () => boolean = () => true): ClientState {
    const state = new ClientState(name, kind, isOn);
    this.clients.push(state);
    return state;
  }

  inject(name: string, excuses: readonly Excuse[], maxMs = recoveryMaxMs): Episode {
    const row = this.#row(name);
    row.times++;
    const episode: Episode = {
      row,
      excuses: new Set(excuses),
      recoveryMaxMs: maxMs,
      injectedAt: performance.now(),
      healedAt: undefined,
      closedAt: undefined,
    };
    this.#episodes.push(episode);
    if (this.#episodes.length > episodesMax) this.#episodes.shift();
    this.#current = row;
    return episode;
  }

  /** The fault is over: from now on everyone has to have a right response. */
  heal(episode: Episode): void {
    episode.healedAt = performance.now();
    for (const client of this.clients) client.rightBy = undefined;
  }

  /** The fault that is on turned out to harm more than it usually does. */
  excuse(excuse: Excuse): void {
    this.#episodes.at(-1)?.excuses.add(excuse);
  }

  /** What the fault did became known, and was made good, only after its end. */
  healAgain(): void {
    const last = this.#episodes.at(-1);
    if (last?.healedAt !== undefined) this.heal(last);
  }

  /** Ends an episode; undefined: it did not recover by itself. */
  close(episode: Episode, recoverySeconds: number | undefined): void {
    episode.closedAt = performance.now();
    const { row } = episode;
    row.recoverySeconds = Math.max(row.recoverySeconds ?? 0, recoverySeconds ?? Number.POSITIVE_INFINITY);
  }

  /** Since when readers cannot be held to the newest block; undefined: they can. */
  get unsettledSince(): number | undefined {
    const last = this.#episodes.at(-1);
    if (last === undefined || last.closedAt !== undefined) return undefined;
    const isLate = last.healedAt !== undefined && performance.now() > last.healedAt + last.recoveryMaxMs;
    return isLate && !machineIsBusy() ? undefined : last.injectedAt;
  }

  right(client: ClientState, startedAt: number, isOld: boolean): void {
    this.#current.right++;
    if (isOld) {
      failed(client, "the response is of an older block");
      return;
    }
    if (startedAt >= (this.#episodes.at(-1)?.healedAt ?? 0)) client.rightBy ??= performance.now();
  }

  /** An update of a stream that was right. */
  delivered(): void {
    this.#current.right++;
  }

  /** A stream's reader holds all that was published. */
  fresh(client: ClientState): void {
    client.rightBy ??= performance.now();
  }

  /** A call of many responses has come one further. */
  step(client: ClientState): void {
    client.openSince = performance.now();
    client.rightBy ??= performance.now();
  }

  /** It does not, or not any more. */
  behind(client: ClientState, what: string): void {
    failed(client, what);
  }

  /** A response that is not true. */
  wrong(client: ClientState, what: string): void {
    failed(client, what);
    this.#current.wrong++;
    this.#current.firstWrong ??= `${client.name}: ${what}`;
    this.#reportOnce(`wrong response during "${this.#current.name}": ${client.name}`, what);
  }

  /**
   * A call that failed: honest where it may fail now and says so as documented, otherwise wrong. The connections of a
   * process that ends break before its end is heard of, so what nothing excuses is judged once more a moment later.
   */
  failure(client: ClientState, startedAt: number, failure: CallFailure): void {
    failed(client, failure.summary);
    if (this.#objection(client, startedAt, failure) === undefined) this.#honestFailure(client, failure);
    else setTimeout(() => this.#judgeAgain(client, startedAt, failure), endHeardMsMax);
  }

  #judgeAgain(client: ClientState, startedAt: number, failure: CallFailure): void {
    const objection = this.#objection(client, startedAt, failure);
    if (objection === undefined) this.#honestFailure(client, failure);
    else this.wrong(client, `${objection}: ${failure.summary}`);
  }

  #honestFailure(client: ClientState, failure: CallFailure): void {
    this.#current.honest++;
    const key = `${this.#current.name}: ${client.kind} ${failure.summary}`;
    this.#honest.set(key, (this.#honest.get(key) ?? 0) + 1);
  }

  /** Takes over the rows of another scoreboard. */
  adopt(other: Scoreboard): void {
    for (const row of other.rows.values()) if (row.times > 0) this.rows.set(row.name, row);
  }

  /** Everyone who calls has had a right response since the last fault's end. */
  get allRight(): boolean {
    return this.clients.every(({ isOn, rightBy }) => !isOn() || rightBy !== undefined);
  }

  /** Honest errors by fault and text, the most frequent first. */
  honestErrors(): string[] {
    return [...this.#honest].sort(([, a], [, b]) => b - a).map(([text, count]) => `${count} × ${text}`);
  }

  #objection(client: ClientState, startedAt: number, failure: CallFailure): string | undefined {
    const excuse = excuseFor(client.kind, failure);
    if (excuse === undefined) return "not an error that is documented";
    const isExcused = this.#episodes.some((episode) => {
      const ended = episode.closedAt !== undefined && startedAt > episode.closedAt;
      return !ended && excuse.some((each) => episode.excuses.has(each));
    });
    if (isExcused || (isSlow(failure) && machineIsBusy())) return undefined;
    return "nothing excuses this error";
  }

  #row(name: string): Row {
    let row = this.rows.get(name);
    if (row === undefined) {
      row = { name, times: 0, right: 0, honest: 0, wrong: 0, recoverySeconds: undefined };
      this.rows.set(name, row);
    }
    return row;
  }

  #reportOnce(name: string, what: string): void {
    const count = (this.#reported.get(name) ?? 0) + 1;
    this.#reported.set(name, count);
    if (count <= wrongReportsMax) this.report.say(`${name}: ${what}`);
  }
}

function isSlow({ kind, code }: CallFailure): boolean {
  return kind === "late" || (kind === "said" && code === codes.deadlineExceeded);
}

/** Other programs use so much of this machine that late responses are excused. */
function machineIsBusy(): boolean {
  try {
    const share = /some avg10=([0-9.]+)/.exec(readFileSync("/proc/pressure/cpu", "utf8"))?.[1];
    return Number(share) > busyPercent;
  } catch {
    return false;
  }
}

function failed(client: ClientState, why: string): void {
  client.rightBy = undefined;
  client.lastFailure = why;
}

/** What may refuse or end streams. */
const causesOf = { stream: ["stream", "hot"], replay: ["stream", "hot", "ledger"] } as const;

/** What would excuse a failure; undefined: nothing ever does. */
function excuseFor(kind: ClientKind, failure: CallFailure): readonly Excuse[] | undefined {
  const { code, hasRetryInfo } = failure;
  const slow: readonly Excuse[] =
    kind === "replay" ? ["slow hot", "slow ledger"] : [kind === "ledger" ? "slow ledger" : "slow hot"];
  switch (failure.kind) {
    case "said":
      if (code === codes.deadlineExceeded) return slow;
      if (!hasRetryInfo || (code !== codes.unavailable && code !== codes.resourceExhausted)) return undefined;
      return kind === "stream" || kind === "replay" ? causesOf[kind] : [kind];
    case "late":
      return slow;
    case "refused":
      return ["connection", "refused"];
    case "broken":
      // On a connection of its own, the listener may have closed just then.
      return failure.reused ? ["connection"] : ["connection", "refused"];
    case "cut off":
      return [...(kind === "replay" ? causesOf[kind] : [kind]), "connection", "refused"];
    case "malformed":
      return undefined;
  }
}
