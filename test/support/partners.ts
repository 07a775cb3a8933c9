import { accessSync, constants, statSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";

/** Something of other people's that tests talk to, and a machine may lack. Without it those tests are skipped. */
interface Partner {
  /** What is lost without it. */
  readonly tests: string;
  /** Any of these programs will do; the first that is there is taken. */
  readonly programs: readonly string[];
}

const partners = {
  curl: { tests: "the examples of the documents, pasted into a shell", programs: ["curl"] },
  grpcurl: { tests: "calls with grpcurl, which knows us by reflection alone", programs: ["grpcurl"] },
  grpcui: { tests: "calls with grpcui, which shows in a page what reflection tells", programs: ["grpcui"] },
  openssl: { tests: "TLS, with a certificate of its own", programs: ["openssl"] },
  browser: {
    tests: "a real browser on the page and on every stream",
    programs: ["chromium", "chromium-browser", "google-chrome"],
  },
  go: {
    tests: "the Go client, that its generated code is fresh, and the Go calls that the explorer shows",
    programs: ["go"],
  },
  jq: { tests: "the examples in shell", programs: ["jq"] },
  bc: { tests: "the examples in shell", programs: ["bc"] },
  python: {
    tests:
      "the Python client, installed from its wheel, the Python calls that the explorer shows, and a live ladder in a pseudo-terminal",
    programs: ["python3"],
  },
  maven: { tests: "calls in Java, with code generated from the definitions", programs: ["mvn"] },
  javac: { tests: "calls in Java, with code generated from the definitions", programs: ["javac"] },
  nginx: { tests: "the configuration of nginx in docs/proxies.md", programs: ["nginx"] },
  caddy: { tests: "the configuration of Caddy in docs/proxies.md", programs: ["caddy"] },
  haproxy: { tests: "the configuration of HAProxy in docs/proxies.md", programs: ["haproxy"] },
  schemathesis: { tests: "a fuzzer that reads openapi.json", programs: ["schemathesis"] },
  openapiGenerator: {
    tests: "the Python client that openapi-generator makes of openapi.json",
    programs: ["openapi-generator-cli"],
  },
  faketime: { tests: "steps of the wall clock", programs: ["faketime"] },
  promtool: { tests: "the alert rules, and their own tests", programs: ["promtool"] },
  prometheus: { tests: "every expression of the dashboard on a real Prometheus", programs: ["prometheus"] },
  systemdAnalyze: { tests: "the systemd units, as systemd reads them", programs: ["systemd-analyze"] },
  dockerCompose: { tests: "compose.yaml, as Docker Compose reads it", programs: ["docker-compose"] },
} satisfies Record<string, Partner>;

/** Names of the programs that tests may ask for. */
export type PartnerName = keyof typeof partners;

/** Path of a partner's program; undefined when it is not on this machine. */
export function partnerProgram(name: PartnerName): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const own = [".local", "go"].map((folder) => join(homedir(), folder, "bin"));
  folders.push(...own, "/usr/local/go/bin", "/usr/local/bin", "/usr/bin", "/usr/sbin");
  for (const program of partners[name].programs) {
    const found = folders.map((folder) => join(folder, program)).find(isProgram);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** For `go`: linked without tables for debuggers, programs that run once are there sooner. */
export const goEnvironment = { GOFLAGS: `${process.env["GOFLAGS"] ?? ""} -ldflags=-w`.trim() };

/** What npm, pip and go say then. */
const unreachable = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|NewConnectionError|dial tcp|i\/o timeout/;

/** Whether a package manager failed only because it cannot reach its registry. */
export function isOffline(error: unknown): boolean {
  return unreachable.test(String(error instanceof Error && "stderr" in error ? error.stderr : error));
}

/** Path of a real network's recording, from MARKETD_RECORDING; undefined when there is none. */
export function recordingPath(): string | undefined {
  const path = process.env["MARKETD_RECORDING"];
  return path === undefined || path === "" ? undefined : path;
}

/** Folder of frames that venues sent, from MARKETD_VENUES; undefined when there is none. */
export function venueFramesPath(): string | undefined {
  const path = process.env["MARKETD_VENUES"];
  return path === undefined || path === "" ? undefined : path;
}

/** One line for each group of tests that this machine must skip. */
export function skippedPartners(): string[] {
  const names = Object.keys(partners) as PartnerName[];
  const lines = names
    .filter((name) => partnerProgram(name) === undefined)
    .map((name) => `skipped: ${partners[name].tests} (${partners[name].programs[0]} is not on this machine)`);
  if (recordingPath() === undefined) lines.push("skipped: a real network's recording (MARKETD_RECORDING names none)");
  if (venueFramesPath() === undefined) lines.push("skipped: frames of real venues (MARKETD_VENUES names no folder)");
  return lines;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
