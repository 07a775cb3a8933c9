import { isatty } from "node:tty";

/** Resolves with the name of the first SIGTERM or SIGINT. A second one ends the process at once. */
export function untilStopped(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    const stop = (signal: NodeJS.Signals): void => {
      process.off("SIGTERM", stop);
      process.off("SIGINT", stop);
      resolve(signal);
    };
    process.on("SIGTERM", stop);
    process.on("SIGINT", stop);
  });
}

/** Aborts `stop` at the first of those signals. */
export function stopOnSignal(): { readonly stop: AbortController; readonly isInterrupted: () => boolean } {
  const stop = new AbortController();
  let interrupted = false;
  void untilStopped().then((signal) => {
    interrupted = signal === "SIGINT";
    stop.abort();
  });
  return { stop, isInterrupted: () => interrupted };
}

/** The SIGHUPs of this process, from the creation of this object. */
export class HangUps {
  #listener: (() => void) | undefined;
  #pending = false;

  constructor() {
    const startedOnTerminal = isatty(stderrDescriptor);
    const onHangUp = (): void => {
      // The terminal of the command has closed: end like any other command.
      if (startedOnTerminal && !isatty(stderrDescriptor)) {
        process.off("SIGHUP", onHangUp);
        process.kill(process.pid, "SIGHUP");
      } else if (this.#listener === undefined) this.#pending = true;
      else this.#listener();
    };
    // In place of the listener that keeps a signal from ending the process while it starts.
    process.removeAllListeners("SIGHUP");
    process.on("SIGHUP", onHangUp);
  }

  /** Calls `listener` for each SIGHUP; at once if there was one before. */
  each(listener: () => void): void {
    this.#listener = listener;
    if (this.#pending) listener();
  }
}

const stderrDescriptor = 2;
