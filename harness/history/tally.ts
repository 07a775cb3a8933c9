import type { Report } from "../support/report.js";

/** Wrong responses of a kind that are told in full. */
const toldMax = 8;

interface Counts {
  right: number;
  honest: number;
  wrong: number;
  /** The first wrong one. */
  firstWrong?: string;
}

/** Counts questions by their kind, and tells of wrong ones with all that is needed to ask again. */
export class Tally {
  readonly #kinds = new Map<string, Counts>();
  readonly #honest = new Map<string, number>();
  readonly #facts = new Map<string, number>();

  constructor(
    private readonly report: Report,
    private readonly seed: number,
  ) {}

  get questions(): number {
    return [...this.#kinds.values()].reduce((sum, { right, honest, wrong }) => sum + right + honest + wrong, 0);
  }

  right(kind: string): void {
    this.#of(kind).right++;
  }

  /** An error that may be: the service says what is true, or what a fault excuses. */
  honest(kind: string, what: string): void {
    this.#of(kind).honest++;
    const key = `${kind}: ${what}`;
    this.#honest.set(key, (this.#honest.get(key) ?? 0) + 1);
  }

  /** @param place what was asked, and which service */
  wrong(kind: string, place: string, what: string): void {
    const counts = this.#of(kind);
    counts.wrong++;
    counts.firstWrong ??= `(seed ${this.seed}) ${place}: ${what}`;
    if (counts.wrong <= toldMax) this.report.say(`WRONG (seed ${this.seed}) ${kind}: ${place}: ${what}`);
  }

  /** Something that a run has to bring about, and how often it did. */
  fact(name: string, count = 1): void {
    this.#facts.set(name, (this.#facts.get(name) ?? 0) + count);
  }

  factOf(name: string): number {
    return this.#facts.get(name) ?? 0;
  }

  /** Prints all counts, and checks that nothing was wrong. */
  finish(): void {
    const sorted = [...this.#honest].sort(([, a], [, b]) => b - a).slice(0, 20);
    for (const [what, count] of sorted) this.report.say(`${count} × ${what}`);
    for (const [name, count] of this.#facts) this.report.say(`${name}: ${count}`);
    for (const [kind, { right, wrong, firstWrong }] of this.#kinds) {
      this.report.check(`${kind}: none wrong`, wrong === 0, `${wrong} wrong, the first one ${firstWrong}`);
      this.report.check(`${kind}: some right`, right > 0);
    }
    const rows = [...this.#kinds].map(([kind, { right, honest, wrong }]) => [kind, right, honest, wrong]);
    this.report.table([["questions", "right", "honest errors", "wrong"], ...rows]);
  }

  #of(kind: string): Counts {
    const counts = this.#kinds.get(kind) ?? { right: 0, honest: 0, wrong: 0 };
    this.#kinds.set(kind, counts);
    return counts;
  }
}

/** Where two texts begin to differ. */
export function difference(found: string, expected: string): string {
  let at = 0;
  while (at < found.length && found[at] === expected[at]) at++;
  const part = (text: string) => text.slice(Math.max(0, at - 60), at + 120);
  return `differs at ${at} of ${found.length} (${expected.length} expected):\n  found    ${part(found)}\n  expected ${part(expected)}`;
}
