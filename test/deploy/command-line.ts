import { expect, vi } from "vitest";
import { type Commands, createProgram } from "../../src/config.js";

/** Takes every command, and does nothing. */
function commandsThatTake(take: (name: string) => void): Commands {
  return new Proxy({} as Commands, { get: (_, name) => async () => take(String(name)) });
}

/**
 * The command that the program itself finds in these arguments, with these settings in its environment.
 * @throws when it refuses an argument or a value
 */
export async function commandOf(
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<string> {
  const known = environmentNames();
  for (const [name, value] of Object.entries(environment)) {
    if (!name.startsWith("MARKETD_")) continue;
    expect(known).toContain(name);
    vi.stubEnv(name, value);
  }
  try {
    let taken = "";
    const commands = commandsThatTake((name) => {
      taken = name;
    });
    await createProgram("", commands, { silent: true }).parseAsync(args, { from: "user" });
    return taken;
  } finally {
    vi.unstubAllEnvs();
  }
}

/** All environment variables that the program's help names. */
function environmentNames(): ReadonlySet<string> {
  const program = createProgram(
    "",
    commandsThatTake(() => {}),
    { silent: true },
  );
  const help = program.commands.map((command) => command.helpInformation()).join("");
  return new Set(help.match(/MARKETD_[A-Z_]+/g));
}
