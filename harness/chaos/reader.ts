import { setTimeout as delay } from "node:timers/promises";
import { CallFailure, failureFromSocket } from "./call-failure.js";
import type { Judge } from "./judge.js";
import type { RandomSource } from "./random-source.js";
import type { ClientKind, ClientState, Scoreboard } from "./scoreboard.js";

/** How long a caller waits for a response. */
export const deadlineMs = 4_000;

/** How often one who has nothing to do looks whether that has changed. */
const offPollMs = 50;

/** What all readers share. */
export interface Readers {
  readonly port: number;
  readonly judge: Judge;
  readonly scoreboard: Scoreboard;
  readonly random: RandomSource;
  readonly signal: AbortSignal;
}

/** What came of one call; old: right for a block that is older than usual; undefined: it cannot be judged. */
export type Finding = "right" | "old" | { readonly wrong: string } | undefined;

/** Calls again and again until the harness ends, and enters what comes of it. */
export async function repeat(
  readers: Readers,
  name: string,
  kind: ClientKind,
  pauseMs: number,
  call: (startedAt: number, client: ClientState) => Promise<Finding>,
  isOn: () => boolean = () => true,
): Promise<void> {
  const { scoreboard, signal } = readers;
  const client = scoreboard.client(name, kind, isOn);
  while (!signal.aborted) {
    if (!isOn()) {
      await delay(offPollMs);
      continue;
    }
    const startedAt = performance.now();
    client.openSince = startedAt;
    try {
      const finding = await call(startedAt, client);
      if (!signal.aborted) enter(scoreboard, client, startedAt, finding);
    } catch (error) {
      if (!signal.aborted) scoreboard.failure(client, startedAt, failureOf(error));
      await delay(pauseMs / 2);
    }
    client.openSince = undefined;
    if (pauseMs > 0) await delay(pauseMs * (0.5 + readers.random.next()));
  }
}

function enter(scoreboard: Scoreboard, client: ClientState, startedAt: number, finding: Finding): void {
  if (finding === undefined) return;
  if (typeof finding === "object") scoreboard.wrong(client, finding.wrong);
  else scoreboard.right(client, startedAt, finding === "old");
}

function failureOf(error: unknown): CallFailure {
  if (error instanceof CallFailure) return error;
  const isSocket = error instanceof Error && "code" in error;
  return isSocket ? failureFromSocket(error) : new CallFailure("malformed", String(error));
}
