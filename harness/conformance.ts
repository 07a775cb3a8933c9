// npm run conformance: the conformance suite of the Connect project against this build's own port. Its program is
// `go install connectrpc.com/conformance/cmd/connectconformance@v1.0.5`.
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const program = "connectconformance";
const wantedVersion = "v1.0.5";

/** This machine lacks the program. */
const exitLacking = 3;

/** So many cases the suite has for what the service supports; fewer would mean that some were left out. */
const casesMin = 3_832;

/** How many cases may be known to fail. */
const knownFailingMax = 12;

const inSources = (path: string): string =>
  fileURLToPath(new URL(`../../harness/conformance/${path}`, import.meta.url));
const server = fileURLToPath(new URL("conformance/server.js", import.meta.url));
const knownFailing = inSources("known-failing.txt");

/** What the suite says in its last lines. */
interface Outcome {
  cases: number;
  passed: number;
  failed: number;
  notRun: number;
  knownFailures: number;
}

const say = (line: string): boolean => process.stderr.write(`${line}\n`);

requireProgram();
const started = performance.now();
const outcome = await runSuite();
const problems = problemsOf(outcome);
for (const problem of problems) process.stdout.write(`failed: ${problem}\n`);
say(`${outcome.cases} cases in ${((performance.now() - started) / 1000).toFixed(0)} s`);
process.stdout.write(`${outcome.passed} passed, ${outcome.failed + outcome.notRun + problems.length} failed\n`);
process.exitCode = outcome.failed + outcome.notRun + problems.length === 0 ? 0 : 1;

function requireProgram(): void {
  const { error, stdout } = spawnSync(program, ["--version"], { encoding: "utf8" });
  const install = `go install connectrpc.com/conformance/cmd/connectconformance@${wantedVersion}`;
  if (error !== undefined) {
    say(`marketd: ${program} is not installed; ${install}`);
    process.exit(exitLacking);
  }
  if (!stdout.includes(wantedVersion)) {
    say(`marketd: ${program} is ${stdout.trim()}, not ${wantedVersion}; ${install}`);
    process.exit(exitLacking);
  }
}

/** Runs all cases; shows what the suite says, but its summary. */
function runSuite(): Promise<Outcome> {
  const patterns = readFileSync(knownFailing, "utf8")
    .split("\n")
    .filter((line) => /^[^#\s]/.test(line));
  const known = patterns.length === 0 ? [] : ["--known-failing", `@${knownFailing}`];
  const settings = ["--mode", "server", "--conf", inSources("suite.yaml"), "-v", ...known];
  const suite = spawn(program, [...settings, "--", process.execPath, server], { stdio: ["ignore", "pipe", "inherit"] });
  const outcome: Outcome = { cases: 0, passed: 0, failed: 0, notRun: 0, knownFailures: 0 };
  const lines = createInterface({ input: suite.stdout });
  lines.on("line", (line) => {
    if (!readSummary(line, outcome)) say(line);
  });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => suite.kill(signal));
  return new Promise((resolve, reject) => {
    suite.once("error", reject);
    suite.once("close", () => resolve(outcome));
  });
}

/** False: the line is none of the summary's. */
function readSummary(line: string, outcome: Outcome): boolean {
  const total = /^Total cases: (\d+)$/.exec(line);
  if (total !== null) outcome.cases = Number(total[1]);
  const counts = /^(\d+) passed, (\d+) failed$/.exec(line);
  if (counts !== null) [outcome.passed, outcome.failed] = [Number(counts[1]), Number(counts[2])];
  const notRun = /^Another (\d+) could not be run/.exec(line);
  if (notRun !== null) outcome.notRun = Number(notRun[1]);
  const known = /^\(Another (\d+) failed as expected/.exec(line);
  if (known !== null) outcome.knownFailures = Number(known[1]);
  return total !== null || counts !== null || notRun !== null || known !== null;
}

function problemsOf({ cases, knownFailures }: Outcome): string[] {
  const problems = [];
  if (cases < casesMin) problems.push(`only ${cases} of at least ${casesMin} cases were run`);
  if (knownFailures > knownFailingMax) {
    problems.push(`${knownFailures} cases are known to fail, more than ${knownFailingMax}`);
  }
  return problems;
}
