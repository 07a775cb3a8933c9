import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

/** The key, and what escape sequences begin with. */
export const escapeKey = "\u001b";

/**
 * Runs a program on a pseudo-terminal. What the terminal gets comes out; lines that come in resize it, press a key or
 * send a signal.
 */
const bridge = `
import fcntl, os, pty, select, signal, struct, sys, termios

def resize(descriptor, rows, columns):
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", int(rows), int(columns), 0, 0))

rows, columns, *command = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    resize(0, rows, columns)
    os.execvp(command[0], command)
inputs = [terminal, 0]
while True:
    ready, _, _ = select.select(inputs, [], [])
    if 0 in ready:
        lines = os.read(0, 65536).decode().splitlines()
        if not lines:
            inputs.remove(0)
        for line in lines:
            word, *values = line.split()
            if word == "resize":
                resize(terminal, *values)
            elif word == "key":
                os.write(terminal, bytes(map(int, values)))
            elif word == "signal":
                os.kill(pid, int(values[0]))
    if terminal in ready:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            data = b""
        if not data:
            break
        os.write(1, data)
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
`;

/** What a program shows on a terminal of its own, as an xterm would. */
export class Terminal {
  /** All that the program has written. */
  written = "";
  readonly #child: ChildProcess;
  readonly #screen = new Screen();

  /** @param python path of Python 3 */
  constructor(python: string, rows: number, columns: number, command: readonly string[], env: NodeJS.ProcessEnv) {
    // What a test run says of colours is not said of this terminal.
    const { NO_COLOR: _, FORCE_COLOR: __, CI: ___, ...inherited } = process.env;
    this.#child = spawn(python, ["-c", bridge, String(rows), String(columns), ...command], {
      stdio: ["pipe", "pipe", "inherit"],
      env: { ...inherited, TERM: "xterm-256color", ...env },
    });
    this.#child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.written += text;
      this.#screen.write(text);
    });
  }

  /** Lines from the top, without the spaces at their ends. */
  get lines(): readonly string[] {
    return this.#screen.lines;
  }

  /** Whether the program has the alternate screen. */
  get isFull(): boolean {
    return this.#screen.isAlternate;
  }

  get showsCursor(): boolean {
    return this.#screen.showsCursor;
  }

  resize(rows: number, columns: number): void {
    this.#child.stdin?.write(`resize ${rows} ${columns}\n`);
  }

  press(key: string): void {
    this.#child.stdin?.write(`key ${[...Buffer.from(key)].join(" ")}\n`);
  }

  signal(number: number): void {
    this.#child.stdin?.write(`signal ${number}\n`);
  }

  /** Resolves with the program's exit code; 128 and the signal's number when one ended it. */
  async ended(): Promise<number | null> {
    if (this.#child.exitCode === null) await once(this.#child, "close");
    return this.#child.exitCode;
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }
}

/** The part of ECMA-48 and xterm that our command uses. Anything else is shown, so that a test sees it. */
class Screen {
  isAlternate = false;
  showsCursor = true;
  #buffers = { main: [""], alternate: [""] };
  #row = 0;
  #column = 0;
  #rest = "";

  get lines(): readonly string[] {
    return this.#lines.map((line) => line.trimEnd());
  }

  get #lines(): string[] {
    return this.isAlternate ? this.#buffers.alternate : this.#buffers.main;
  }

  write(text: string): void {
    const pattern = new RegExp(`${escapeKey}\\[([?0-9;]*)([A-Za-z])|(\r)|(\n)|([^${escapeKey}\r\n]+)`, "gy");
    const all = this.#rest + text;
    let at = 0;
    for (let match = pattern.exec(all); match !== null; match = pattern.exec(all)) {
      at = pattern.lastIndex;
      const [, parameter = "", command, isReturn, isFeed, shown] = match;
      if (command !== undefined) this.#control(parameter, command);
      else if (isReturn !== undefined) this.#column = 0;
      else if (isFeed !== undefined) this.#row++;
      else if (shown !== undefined) this.#show(shown);
    }
    // An escape sequence that is not complete yet.
    this.#rest = all.slice(at);
  }

  #show(text: string): void {
    const before = (this.#lines[this.#row] ?? "").padEnd(this.#column);
    this.#set(before.slice(0, this.#column) + text + before.slice(this.#column + text.length));
    this.#column += text.length;
  }

  #set(line: string): void {
    while (this.#lines.length < this.#row) this.#lines.push("");
    this.#lines[this.#row] = line;
  }

  #control(parameter: string, command: string): void {
    if (command === "m") return;
    if (command === "H") [this.#row, this.#column] = [0, 0];
    else if (command === "K") this.#set((this.#lines[this.#row] ?? "").slice(0, this.#column));
    else if (command === "J") this.#lines.splice(this.#row + 1);
    else if (parameter === "?25") this.showsCursor = command === "h";
    else if (parameter === "?1049") {
      this.isAlternate = command === "h";
      if (this.isAlternate) this.#buffers.alternate = [""];
      [this.#row, this.#column] = [this.isAlternate ? 0 : this.#buffers.main.length - 1, 0];
    } else if (parameter !== "?7" && parameter !== "?2026") this.#show(`<CSI ${parameter}${command}>`);
  }
}
