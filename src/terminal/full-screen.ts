import { writeSync } from "node:fs";
import type { ReadStream } from "node:tty";

// Private modes of xterm: the alternate screen, the cursor, wrapping of long lines.
const enter = "\u001b[?1049h\u001b[?25l\u001b[?7l";
const leave = "\u001b[?7h\u001b[?25h\u001b[?1049l";
// Terminals with synchronised updates show a frame at once; others ignore these codes.
const frameStart = "\u001b[?2026h\u001b[H";
const frameEnd = "\u001b[J\u001b[?2026l";

/** Some terminals, such as a serial line, do not report their size. */
const unknownSize = { rows: 24, columns: 80 };

const interruptKey = "\u0003";
const suspendKey = "\u001a";

/** Events of a full-screen command. */
export interface ScreenListener {
  /** The terminal was resized, or the command resumed. */
  readonly onResize: () => void;
  /** A key other than Ctrl-C and Ctrl-Z, which act as in any command. */
  readonly onKey: (key: string) => void;
}

/**
 * The full-screen mode of the terminal, until {@link close}. The terminal is restored when the process ends, unless by
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

  /** Shows lines of at most {@link columns}, unless the terminal has not taken the previous ones yet. */
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

  /** Restores the previous content of the terminal. */
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
      // Written synchronously, because later output may be lost when the process ends.
      writeSync(this.#output.fd, leave);
      this.#input?.setRawMode(false);
    } catch {
      // The terminal is gone.
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
