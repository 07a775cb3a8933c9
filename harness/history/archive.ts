import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { Binance } from "../../examples/venues/binance.js";
import { Bitget } from "../../examples/venues/bitget.js";
import { Deribit } from "../../examples/venues/deribit.js";
import { Kraken } from "../../examples/venues/kraken.js";
import { Okx } from "../../examples/venues/okx.js";
import { type Converter, RecordingWriter, receivedFrame } from "../../examples/venues/recording.js";
import { freePort } from "../../test/support/free-port.js";
import { startChild } from "../chaos/children.js";
import { DatabaseServer } from "../chaos/database-server.js";
import { endOf, isReady, type RunContext } from "./history-world.js";
import { KeptPast } from "./kept-past.js";
import { Oracle } from "./oracle.js";
import { clientsOf, PastQuestions } from "./past-questions.js";
import { gapNoticedMsMax, type ReplayContext, replayToEnd } from "./replay-readers.js";
import type { Tally } from "./tally.js";

const venues: readonly (readonly [name: string, files: readonly string[], converter: () => Converter])[] = [
  ["kraken", ["kraken-books", "kraken-trades"], () => new Kraken()],
  ["okx", ["okx"], () => new Okx()],
  ["bitget", ["bitget-spot"], () => new Bitget()],
  ["binance", ["binance-snapshots", "binance-stream"], () => new Binance()],
  ["deribit", ["deribit"], () => new Deribit()],
];
const readyMaxMs = 60_000;
/** A loader is killed after so long. */
const killedAfterMs = [200, 1_500] as const;
const killsMax = 3;
const loops = 4;

/** Loads the recordings that this machine has, with loaders that are killed, and asks about their past. */
export async function tryRecordings(context: RunContext, tally: Tally, seconds: number): Promise<void> {
  const { report } = context;
  const recordings = recordingsHere();
  if (recordings.length === 0) {
    report.say("skipped: recordings (MARKETD_RECORDING and MARKETD_VENUES name none)");
    return;
  }
  const directory = mkdtempSync(join(tmpdir(), "marketd-history-"));
  const server = await DatabaseServer.create(join(directory, "data"), join(directory, "server"), 1);
  try {
    for (const [name, frames] of recordings) {
      await tryRecording(context, tally, { directory, server, name, frames: frames() }, seconds / recordings.length);
    }
  } finally {
    await server.end();
    rmSync(directory, { recursive: true, force: true });
  }
}

interface Archive {
  readonly directory: string;
  readonly server: DatabaseServer;
  readonly name: string;
  readonly frames: Buffer;
}

async function tryRecording(context: RunContext, tally: Tally, archive: Archive, seconds: number): Promise<void> {
  const { directory, server, name, frames } = archive;
  const { random, report } = context;
  const oracle = new Oracle();
  oracle.apply(frames);
  const file = join(directory, `${name}.recording`);
  writeFileSync(file, frames);
  const url = server.localUrl(`history_${name}`);
  const program = [context.settings.program];
  const load = ["load", "--database-url", url, "--keep-books", "all", "--log-level", "warn", file];
  for (let kills = 0; ; kills++) {
    const child = startChild(process.execPath, [...program, ...load], { stdio: ["ignore", "pipe", "pipe"] });
    if (kills < killsMax) setTimeout(() => child.kill("SIGKILL"), random.between(...killedAfterMs)).unref();
    const { code, printed } = await endOf(child);
    if (code === 0) break;
    if (code !== null) throw new Error(`${name} cannot be loaded: ${printed.slice(-500)}`);
  }
  const verified = startChild(process.execPath, [...program, "verify", "--database-url", url], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { code, printed } = await endOf(verified);
  report.check(`${name}: its past is verified`, code === 0, printed.slice(-500));
  const port = await freePort();
  const serve = [
    "serve",
    "--database-url",
    url,
    "--listen",
    `127.0.0.1:${port}`,
    "--workers",
    "1",
    "--log-level",
    "warn",
  ];
  const service = startChild(process.execPath, [...program, ...serve], { stdio: ["ignore", "ignore", "inherit"] });
  try {
    const until = performance.now() + readyMaxMs;
    while (!(await isReady(port))) {
      if (performance.now() > until) throw new Error(`the service of ${name} is not ready`);
      await delay(50);
    }
    const before = tally.questions;
    await ask(context, tally, oracle, { name, port }, seconds);
    report.say(`${name}: ${oracle.blocks.length} blocks, ${tally.questions - before} questions`);
  } finally {
    const ended = endOf(service);
    service.kill("SIGTERM");
    await ended;
  }
}

async function ask(
  { random }: RunContext,
  tally: Tally,
  oracle: Oracle,
  { name, port }: { readonly name: string; readonly port: number },
  seconds: number,
): Promise<void> {
  const kept = new KeptPast(oracle);
  const committed = () => oracle.newest;
  const questions = new PastQuestions(kept, random, tally, committed);
  const replays: ReplayContext = {
    ...{ kept, random, tally, questions, committed, resumeShares: [], wideMarkets: () => [] },
    services: [{ name, port, mayFail: () => false, mayLack: () => false }],
    signal: new AbortController().signal,
  };
  const until = performance.now() + seconds * 1_000;
  const loop = async () => {
    const asked = { name, ...clientsOf(port), gapLagMs: gapNoticedMsMax, mayLack: () => false };
    while (performance.now() < until) {
      const dice = random.next();
      if (dice < 0.7) await questions.askDepth(asked);
      else if (dice < 0.9) await questions.askChanges(asked);
      else await replayToEnd(replays);
    }
    for (const client of [asked.client, ...asked.others]) client.close();
  };
  await Promise.all(Array.from({ length: loops }, loop));
}

/** Names, and whole frames. */
function recordingsHere(): (readonly [name: string, frames: () => Buffer])[] {
  const recording = process.env["MARKETD_RECORDING"];
  const folder = process.env["MARKETD_VENUES"];
  const found: (readonly [string, () => Buffer])[] = [];
  if (recording !== undefined && existsSync(recording))
    found.push(["recording", () => wholeFrames(readFileSync(recording))]);
  if (folder !== undefined && existsSync(folder)) {
    for (const [name, files, converter] of venues)
      found.push([name, () => venueFrames(folder, name, files, converter())]);
  }
  return found;
}

function wholeFrames(bytes: Buffer): Buffer {
  return bytes[0] === 0x1f ? gunzipSync(bytes) : bytes;
}

function venueFrames(folder: string, name: string, files: readonly string[], converter: Converter): Buffer {
  const lines = files.flatMap((file) =>
    gunzipSync(readFileSync(join(folder, `${file}.txt.gz`)))
      .toString()
      .split("\n"),
  );
  const frames = lines.flatMap((line) => receivedFrame(line) ?? []);
  frames.sort((a, b) => (a.timeNs < b.timeNs ? -1 : a.timeNs > b.timeNs ? 1 : 0));
  const writer = new RecordingWriter(name);
  const blocks = frames.flatMap((frame) => {
    const events = converter.convert(frame);
    return events.length === 0 ? [] : [writer.block(frame.timeNs, events)];
  });
  return Buffer.concat(blocks);
}
