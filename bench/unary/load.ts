import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { pinnedTo } from "./pinned.js";
import { depthPath, depthRequestFrame, depthRpcPath } from "./sample.js";

/** What the load came to. */
export interface LoadResult {
  readonly requests: number;
  readonly perSecond: number;
}

/** Programs that this bench needs and this machine lacks. */
export function missingPrograms(): string[] {
  return ["wrk", "h2load"].filter((program) => spawnSync(program, ["--version"]).error !== undefined);
}

/** The same GET over and over, on 64 HTTP/1.1 connections. @throws Error when a response is not 200 */
export function loadHttp(port: number, marketId: string, seconds: number): Promise<LoadResult> {
  return loadWithWrk(port, depthPath(marketId), seconds, []);
}

/** Numbers its requests in a header, as a proxy may. */
const numberingScript = `
local n = 0
request = function()
  n = n + 1
  return wrk.format(nil, nil, { ["Host"] = "localhost", ["x-request-id"] = tostring(n) })
end
`;

/** As {@link loadHttp}, but no request has the bytes of another. @throws Error when a response is not 200 */
export function loadHttpNumbered(port: number, marketId: string, seconds: number): Promise<LoadResult> {
  return loadWithScript(port, depthPath(marketId), seconds, numberingScript);
}

async function loadWithScript(port: number, path: string, seconds: number, script: string): Promise<LoadResult> {
  const folder = mkdtempSync(join(tmpdir(), "bench-unary-"));
  try {
    const file = join(folder, "request.lua");
    writeFileSync(file, script);
    return await loadWithWrk(port, path, seconds, ["-s", file]);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function loadWithWrk(port: number, path: string, seconds: number, options: string[]): Promise<LoadResult> {
  const url = `http://127.0.0.1:${port}${path}`;
  const output = await run("wrk", ["-t1", "-c64", `-d${seconds}s`, ...options, url]);
  if (output.includes("Non-2xx")) throw new Error(`wrk met errors:\n${output}`);
  return { requests: number(output, /(\d+) requests in/), perSecond: number(output, /Requests\/sec:\s+([\d.]+)/) };
}

/** Connect's POST with JSON, numbered as by {@link loadHttpNumbered}. @throws Error when a response is not 200 */
export function loadConnectJson(port: number, marketId: string, seconds: number): Promise<LoadResult> {
  return loadPosts(port, seconds, "application/json", Buffer.from(JSON.stringify({ marketId })));
}

/** gRPC-Web, binary, numbered as by {@link loadHttpNumbered}. @throws Error when a response is not 200 */
export function loadGrpcWeb(port: number, marketId: string, seconds: number): Promise<LoadResult> {
  return loadPosts(port, seconds, "application/grpc-web+proto", depthRequestFrame(marketId));
}

function loadPosts(port: number, seconds: number, contentType: string, body: Buffer): Promise<LoadResult> {
  const bytes = [...body].map((byte) => `\\${byte.toString().padStart(3, "0")}`).join("");
  const script = `
local n = 0
local body = "${bytes}"
request = function()
  n = n + 1
  local headers = { ["Host"] = "localhost", ["content-type"] = "${contentType}", ["x-request-id"] = tostring(n) }
  return wrk.format("POST", nil, headers, body)
end
`;
  return loadWithScript(port, depthRpcPath, seconds, script);
}

/** gRPC calls over 16 HTTP/2 connections, 10 at a time on each. @throws Error when one fails */
export async function loadGrpc(port: number, marketId: string, seconds: number): Promise<LoadResult> {
  const folder = mkdtempSync(join(tmpdir(), "bench-unary-"));
  try {
    const body = join(folder, "request");
    writeFileSync(body, depthRequestFrame(marketId));
    const headers = ["-H", "content-type: application/grpc+proto", "-H", "te: trailers"];
    const load = ["-c16", "-m10", "-t1", "-D", String(seconds), "-d", body, ...headers];
    const output = await run("h2load", [...load, `http://127.0.0.1:${port}${depthRpcPath}`]);
    const failed = number(output, /(\d+) failed/) + number(output, /(\d+) errored/);
    if (failed > 0 || number(output, /(\d+) 2xx/) === 0) throw new Error(`h2load met errors:\n${output}`);
    return { requests: number(output, /(\d+) succeeded/), perSecond: number(output, /([\d.]+) req\/s/) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function run(program: string, args: string[]): Promise<string> {
  const [command, all] = pinnedTo(1, program, args);
  const { stdout } = await promisify(execFile)(command, all);
  return stdout;
}

function number(output: string, pattern: RegExp): number {
  const match = pattern.exec(output)?.[1];
  if (match === undefined) throw new Error(`no ${pattern} in:\n${output}`);
  return Number(match);
}
