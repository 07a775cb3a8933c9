import { writeSync } from "node:fs";
import type { ReadStream } from "node:tty";

// Private modes of xterm: the alternate screen, the cursor, wrapping of long lines.
const enter = "\u001b[?1049h\u001b[?25l\u001b[?7l";
const leave = "\u001b[?7h\u001b[?25h\u001b[?1049l";
// A terminal that knows synchronised updates shows a frame at once; the others ignore these.
const frameStart = "\u001b[?2026h\u001b[H";
const frameEnd = "\u001b[J\u001b[?2026l";

/** Some terminals, such as a serial line, do not tell their size. */
const unknownSize = { rows: 24, columns: 80 };

const interruptKey = "\u0003";
const suspendKey = "\u001a";

/** What a full-screen command is told. */
export interface ScreenListener {
  /** The terminal has another size now, or shows the command again after it was stopped. */
  readonly onResize: () => void;
  /** A key other than Ctrl-C and Ctrl-Z, which do what they do in any command. */
  readonly onKey: (key: string) => void;
}

/**
 * The whole terminal, until {@link close}. The terminal is as before when the process ends, whatever ends it but
 * SIGKILL.
 */
export class FullScreen {
  readonly #output: typeof process.stdout;
  readonly #input: ReadStream | undefined;
  readonly #listener: ScreenListener;
  #shown = "";
  #drawing = false;
  #isOpen = false;

  constructor(output: typeof process.stdout, input: ReadStream | undefined, listener: ScreenListener) {
    this.#output = output;
    this.#input = input;
    this.#listener = listener;
    this.#enter();
    process.on("exit", this.#leave);
    process.on("SIGTSTP", this.#suspend);
    output.on("resize", this.#redraw);
    this.#input?.on("data", this.#onKey);
  }

  get rows(): number {
    return this.#output.rows || unknownSize.rows;
  }

  get columns(): number {
    return this.#output.columns || unknownSize.columns;
  }

  /** Shows lines of at most {@link columns}, unless the terminal has yet to take the ones before. */
  draw(lines: readonly string[]): void {
    if (this.#drawing || !this.#isOpen) return;
    const text = lines.slice(0, this.rows).join("\u001b[K\r\n");
    if (text === this.#shown) return;
    this.#shown = text;
    this.#drawing = true;
    this.#output.write(`${frameStart}${text}\u001b[K${frameEnd}`, () => {
      this.#drawing = false;
    });
  }

  /** Shows what the terminal showed before. */
  close(): void {
    this.#leave();
    process.off("exit", this.#leave);
    process.off("SIGTSTP", this.#suspend);
    this.#output.off("resize", this.#redraw);
    this.#input?.off("data", this.#onKey);
    this.#input?.pause();
  }

  #enter(): void {
    this.#isOpen = true;
    this.#input?.setRawMode(true);
    this.#output.write(enter);
  }

  readonly #redraw = (): void => {
    this.#shown = "";
    this.#listener.onResize();
  };

  readonly #leave = (): void => {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    try {
      // Nothing that is written later is sure to leave before the process ends.
      writeSync(this.#output.fd, leave);
      this.#input?.setRawMode(false);
    } catch {
      // The terminal has gone.
    }
  };

  readonly #suspend = (): void => {
    this.#leave();
    process.once("SIGCONT", () => {
      this.#enter();
      this.#redraw();
    });
    process.kill(process.pid, "SIGSTOP");
  };

  readonly #onKey = (bytes: Buffer): void => {
    const key = bytes.toString();
    if (key === interruptKey) process.kill(process.pid, "SIGINT");
    else if (key === suspendKey) this.#suspend();
    else this.#listener.onKey(key);
  };
}
