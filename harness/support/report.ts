/** Collects the checks of a harness, and ends with the line `N passed, N failed` that every harness ends with. */
export class Report {
  #passed = 0;
  readonly #failures: string[] = [];

  /** Counts a check; one that fails is printed at once, with `why`. */
  check(name: string, holds: boolean, why: string | (() => string) = ""): void {
    if (holds) {
      this.#passed++;
      return;
    }
    const reason = typeof why === "string" ? why : why();
    const failure = reason === "" ? name : `${name}: ${reason}`;
    this.#failures.push(failure);
    this.say(`FAILED ${failure}`);
  }

  /** A line of progress, to standard error. */
  say(line: string): void {
    process.stderr.write(`${line}\n`);
  }

  /** Prints a table to standard output: the first row holds the names of the columns. */
  table(rows: readonly (readonly (string | number)[])[]): void {
    const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => String(row[column] ?? "").length)));
    for (const row of rows) {
      const cells = row.map((cell, column) => {
        const width = widths[column] ?? 0;
        return typeof cell === "number" ? String(cell).padStart(width) : cell.padEnd(width);
      });
      process.stdout.write(`${cells.join("  ").trimEnd()}\n`);
    }
  }

  /**
   * Prints the failed checks, with why, and the last line, and sets the exit code: 0 when every check passed, otherwise
   * 1. The end of the output is often all that is kept.
   */
  finish(): void {
    for (const failure of this.#failures) process.stdout.write(`failed: ${failure}\n`);
    process.stdout.write(`${this.#passed} passed, ${this.#failures.length} failed\n`);
    process.exitCode = this.#failures.length === 0 && this.#passed > 0 ? 0 : 1;
  }
}
