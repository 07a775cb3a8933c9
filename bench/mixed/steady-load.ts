import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { pinnedTo } from "../unary/pinned.js";
import { depthPath } from "../unary/sample.js";

/**
 * Callers that ask independently of each other. So many that each asks seldom, and one that waits for a slow response
 * holds few requests back; for those, wrk adds the delays that they would have seen.
 */
export const callers = 256;

/** About what a response takes. */
const responseMs = 0.5;

/** All connect at once, and the first requests follow so much later: Node accepts one connection in each turn. */
const openMs = 1_000;

/** How long responses took, in milliseconds, and how many came. */
export interface SteadyResult {
  readonly perSecond: number;
  readonly median: number;
  readonly p99: number;
  readonly slowest: number;
}

/**
 * Depth GETs at about `perSecond` for `seconds`: each caller pauses for a random time between a response and its next
 * request, as users do. @throws Error when a response is not 200
 */
export async function steadyLoad(
  port: number,
  marketId: string,
  perSecond: number,
  seconds: number,
): Promise<SteadyResult> {
  const folder = mkdtempSync(join(tmpdir(), "bench-mixed-"));
  try {
    const script = join(folder, "pause.lua");
    // From nothing to twice the mean, in whole milliseconds; the response itself takes its time too.
    const longest = Math.round(2 * ((1000 * callers) / perSecond - responseMs));
    const delay = `opened = opened + 1; return math.random(0, ${longest}) + (opened > ${callers} and 0 or ${openMs})`;
    writeFileSync(script, `local opened = 0; function delay() ${delay} end\n`);
    const url = `http://127.0.0.1:${port}${depthPath(marketId)}`;
    const args = ["-t1", `-c${callers}`, `-d${seconds}s`, "--latency", "-s", script, url];
    const { stdout } = await promisify(execFile)(...pinnedTo(1, "wrk", args));
    if (/Non-2xx|Socket errors/.test(stdout)) throw new Error(`wrk met errors:\n${stdout}`);
    return {
      perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]),
      median: milliseconds(/^\s+50%\s+(\S+)/m.exec(stdout)?.[1]),
      p99: milliseconds(/^\s+99%\s+(\S+)/m.exec(stdout)?.[1]),
      slowest: milliseconds(/Latency\s+\S+\s+\S+\s+(\S+)/.exec(stdout)?.[1]),
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const unitsMs: Readonly<Record<string, number>> = { us: 0.001, ms: 1, s: 1000 };

function milliseconds(text: string | undefined): number {
  const match = /^([\d.]+)(us|ms|s)$/.exec(text ?? "");
  return Number(match?.[1]) * (unitsMs[match?.[2] ?? ""] ?? Number.NaN);
}
