import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import http2 from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { WebSocket } from "ws";
import { MarketFixture } from "../live/market-fixture.js";
import { partnerProgram } from "../support/partners.js";
import { WorkersProcess } from "./workers-process.js";

/* The wall clock of a serving process steps; the monotonic one goes on, as on a machine whose clock is set. */

const streamPath = "/api/v2/stream/markets/depth/updates";
const hourMs = 3_600_000;
/** Peers are pinged every 20 s: what a step forward makes look old is found by then. A step back only hides it. */
const steps = [
  { offsetMs: hourMs, watchedMs: 24_000 },
  { offsetMs: -2 * hourMs, watchedMs: 5_000 },
];
const faketime = partnerProgram("faketime");
const openings: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of openings.splice(0).reverse()) await close();
});

/** A wall clock that steps for the processes started with its environment. */
class SteppingClock {
  readonly environment: Readonly<Record<string, string>>;
  readonly #folder = mkdtempSync(join(tmpdir(), "clock-"));
  readonly #file = join(this.#folder, "offset");

  /** `program` is `faketime`. */
  constructor(program: string) {
    this.step(0);
    this.environment = {
      LD_PRELOAD: execFileSync(program, ["-f", "+0", "printenv", "LD_PRELOAD"], { encoding: "utf8" }).trim(),
      FAKETIME_TIMESTAMP_FILE: this.#file,
      DONT_FAKE_MONOTONIC: "1",
      FAKETIME_NO_CACHE: "1",
    };
  }

  /** Sets it to so many milliseconds from the machine's. */
  step(ms: number): void {
    writeFileSync(this.#file, `${ms < 0 ? "-" : "+"}${Math.abs(ms) / 1000}s\n`);
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true });
  }
}

/** The process's own time, from the `Date` of a response. */
async function dateOf(url: string): Promise<number> {
  const response = await fetch(`${url}/healthz`, { headers: { connection: "close" } });
  return Date.parse(response.headers.get("date") ?? "");
}

test.skipIf(faketime === undefined)(
  "a clock that steps forward 1 h and back 2 h cuts no stream and loses no worker",
  { timeout: 120_000 },
  async () => {
    const fixture = await MarketFixture.create();
    openings.push(() => fixture.drop());
    await fixture.add({ announce: ["a"], levels: [{ marketId: "a", side: 1, price: "7", volume: 3n }] });
    const clock = new SteppingClock(faketime ?? "");
    openings.push(() => clock.remove());
    const args = ["--database-url", fixture.url, "--listen", "127.0.0.1:0", "--workers", "2"];
    const service = new WorkersProcess(args, clock.environment);
    openings.push(() => service.destroy());
    const url = await service.ready();
    const workers = service.workers();

    const cut: string[] = [];
    const session = http2.connect(url);
    session.on("close", () => cut.push("HTTP/2 session"));
    session.on("error", () => {});
    const stream = session.request({ ":path": streamPath });
    stream.resume();
    stream.on("error", () => {});
    stream.on("close", () => cut.push("HTTP/2 stream"));
    const webSocket = new WebSocket(url.replace("http", "ws") + streamPath);
    webSocket.on("error", () => {});
    webSocket.on("close", () => cut.push("WebSocket"));
    const lines = await fetch(url + streamPath);
    const reader = lines.body?.getReader();
    const read = async (): Promise<void> => {
      while ((await reader?.read())?.done === false);
      cut.push("HTTP/1.1 stream");
    };
    read().catch(() => cut.push("HTTP/1.1 stream"));
    await new Promise((resolve) => webSocket.once("message", resolve));

    for (const { offsetMs, watchedMs } of steps) {
      clock.step(offsetMs);
      await expect
        .poll(async () => Math.abs((await dateOf(url)) - Date.now() - offsetMs), { timeout: 10_000 })
        .toBeLessThan(10_000);
      await new Promise((resolve) => setTimeout(resolve, watchedMs));
      expect(cut).toEqual([]);
      expect(service.workers()).toEqual(workers);
    }
    session.destroy();
    webSocket.terminate();
    await reader?.cancel();
  },
);
