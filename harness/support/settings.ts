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
  /** What else this harness takes, as it was given; by the flags' names. */
  readonly more: Readonly<Record<string, string | undefined>>;
}

const ownProgram = fileURLToPath(new URL("../../../bin/marketd", import.meta.url));

/**
 * Reads `--seconds S --seed N --program PATH`, and further flags that take a text. Ends the process with code 2 and one
 * line where they make no sense.
 */
export function readSettings(name: string, defaultSeconds: number, further: readonly string[] = []): HarnessSettings {
  try {
    const flags = ["seconds", "seed", "program", ...further];
    const parsed = parseArgs({ options: Object.fromEntries(flags.map((flag) => [flag, { type: "string" as const }])) });
    const values: Record<string, string | undefined> = { ...parsed.values };
    const program = resolve(values["program"] ?? ownProgram);
    if (!existsSync(program)) throw new Error(`--program: ${program} does not exist`);
    return {
      seconds: wholeNumber("--seconds", values["seconds"] ?? String(defaultSeconds)),
      seed: wholeNumber("--seed", values["seed"] ?? String(Math.floor(Math.random() * 2 ** 31))),
      program,
      more: Object.fromEntries(further.map((flag) => [flag, values[flag]])),
    };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const more = further.map((flag) => ` [--${flag} TEXT]`).join("");
    process.stderr.write(`usage: npm run ${name} -- [--seconds S] [--seed N] [--program PATH]${more}\n${message}\n`);
    process.exit(2);
  }
}

function wholeNumber(flag: string, text: string): number {
  if (!/^[0-9]{1,10}$/.test(text)) throw new Error(`${flag} takes a whole number, not "${text}"`);
  return Number(text);
}
