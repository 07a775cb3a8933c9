import { readFileSync } from "node:fs";
import { hidePassword } from "./commands/hide-password.js";
import { LoggedFailure } from "./commands/log-lines.js";
import { createProgram, isPrintedByProgram, UsageError } from "./config.js";
import { exitUsage, OperatorError } from "./domain/operator-error.js";

const exitFailed = 1;

/** The package's version. Compiled, this file is in dist/src. */
function version(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}

/** Each command is imported on demand, so that the others cost nothing. */
function program(argv: readonly string[]) {
  return createProgram(version(), {
    serve: async (config) => (await import("./commands/serve.js")).serve(config, argv),
    load: async (config) => (await import("./commands/load.js")).load(config),
    migrate: async (config) => (await import("./commands/migrate.js")).migrate(config),
    verify: async (config) => (await import("./commands/verify.js")).verify(config),
    retain: async (config) => (await import("./commands/retain.js")).retain(config),
    simulate: async (config) => (await import("./commands/simulate.js")).simulate(config),
    demo: async (config) => (await import("./commands/demo.js")).demo(config, argv),
    watch: async (config) => (await import("./commands/watch.js")).watch(config),
    export: async (config) => {
      if (config.kind === "ledger") await (await import("./commands/export.js")).exportLedger(config);
      else await (await import("./commands/export-market.js")).exportMarket(config);
    },
    status: async (config) => (await import("./commands/status.js")).status(config),
  });
}

/**
 * Runs the command that `argv` (without node and script) names. Resolves with the exit code when the command has
 * released everything: 0 done, 1 failed, 2 wrong use.
 */
export async function main(argv: readonly string[]): Promise<number> {
  try {
    await program(argv).parseAsync(argv, { from: "user" });
    return 0;
  } catch (error) {
    if (isPrintedByProgram(error)) return error.exitCode === 0 ? 0 : exitUsage;
    if (error instanceof UsageError) {
      process.stderr.write(`marketd: ${error.message}\n`);
      return exitUsage;
    }
    if (error instanceof LoggedFailure) return error.exitCode;
    if (error instanceof OperatorError) {
      process.stderr.write(`marketd: ${error.message}\n`);
      return error.exitCode;
    }
    process.stderr.write(`marketd: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
    return exitFailed;
  }
}

hidePassword();

/** Why standard output could not be written, if a reader that went away is not the reason. */
let outputError: Error | undefined;

// `| head` does not end a command, and neither does a log that nobody can write.
process.stderr.on("error", () => {});
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") outputError ??= error;
});

process.exitCode = await main(process.argv.slice(2));
await new Promise<void>((resolve) => process.stdout.write("", () => resolve()));
if (outputError !== undefined && process.exitCode === 0) {
  process.stderr.write(`marketd: cannot write standard output: ${outputError.message}\n`);
  process.exitCode = exitFailed;
}
