import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

/** What every harness is told on its command line. */
export interface HarnessSettings {
  /** How long to go on, in seconds. */
  readonly seconds: number;
  /** The same seed gives the same sequence of random choices. */
  readonly seed: number;
  /** The `bin/marketd` to try: this build's own, or that of another checkout that is built. */
  readonly program: string;
}

const ownProgram = fileURLToPath(new URL("../../../bin/marketd", import.meta.url));

/** Reads `--seconds S --seed N --program PATH`. Ends the process with code 2 and one line where they make no sense. */
export function readSettings(name: string, defaultSeconds: number): HarnessSettings {
  try {
    const { values } = parseArgs({
      options: { seconds: { type: "string" }, seed: { type: "string" }, program: { type: "string" } },
    });
    const program = resolve(values.program ?? ownProgram);
    if (!existsSync(program)) throw new Error(`--program: ${program} does not exist`);
    return {
      seconds: wholeNumber("--seconds", values.seconds ?? String(defaultSeconds)),
      seed: wholeNumber("--seed", values.seed ?? String(Math.floor(Math.random() * 2 ** 31))),
      program,
    };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`usage: npm run ${name} -- [--seconds S] [--seed N] [--program PATH]\n${message}\n`);
    process.exit(2);
  }
}

function wholeNumber(flag: string, text: string): number {
  if (!/^[0-9]{1,10}$/.test(text)) throw new Error(`${flag} takes a whole number, not "${text}"`);
  return Number(text);
}
