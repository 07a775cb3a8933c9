import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Child } from "./child.js";
import type { ReaderProtocol } from "./light-reader.js";
import type { ReadOrder, ReadReply } from "./read.js";
import type { ServeOrder, ServeReply } from "./serve.js";
import { blockCount } from "./simulated-blocks.js";

/** What the rounds of one server came to. */
export interface Compared {
  readonly name: string;
  /** CPU time of the server, in microseconds, per update that a reader got; by round. */
  readonly cpuMicros: readonly number[];
  readonly messagesPerSecond: readonly number[];
  /** Bytes of a reader in every round. */
  readonly roundBytes: number;
}

/** How the comparison is run. */
export interface CompareOptions {
  readonly connections: number;
  readonly rounds: number;
  readonly nodeArgs: readonly string[];
  /** Another checkout, which is built: its `ours` is `before`. */
  readonly against: string | undefined;
}

const serverCore = 0;
const readerCore = 1;
/** Rounds that don't count: compilers are still busy. */
const warmUpRounds = 2;
const arrivalMaxMs = 20_000;

/** Runs these servers in turn, round after round, each with readers of its own. */
export async function compare(
  names: readonly string[],
  protocol: ReaderProtocol,
  options: CompareOptions,
): Promise<Compared[]> {
  const sides: Side[] = [];
  try {
    for (const name of names) sides.push(await Side.start(name, protocol, options));
    for (let round = 0; round < warmUpRounds; round++) for (const side of sides) await side.round(false);
    for (let round = 0; round < options.rounds; round++) {
      for (const side of round % 2 === 0 ? sides : sides.toReversed()) await side.round(true);
    }
    const outcomes = sides.map((side) => side.outcome());
    const sent = new Set(outcomes.map((outcome) => outcome.roundBytes));
    if (sent.size > 1) throw new Error(`not all sent the same: ${[...sent].join(", ")} bytes`);
    return outcomes;
  } finally {
    for (const side of sides) side.stop();
  }
}

/** A server with its readers. */
class Side {
  readonly #cpuMicros: number[] = [];
  readonly #messagesPerSecond: number[] = [];
  #roundBytes = 0;

  private constructor(
    readonly name: string,
    private readonly connections: number,
    private readonly server: Child<ServeOrder, ServeReply>,
    private readonly readers: Child<ReadOrder, ReadReply>,
  ) {}

  static async start(name: string, protocol: ReaderProtocol, options: CompareOptions): Promise<Side> {
    const { connections, nodeArgs } = options;
    const [server, { port }] = await Child.start<ServeOrder, ServeReply, { port: number }>(
      "serve",
      [name === "before" ? "ours" : name],
      serverCore,
      nodeArgs,
      name === "before" ? join(options.against ?? "", "dist", "bench", "stream") : undefined,
    );
    const [readers] = await Child.start<ReadOrder, ReadReply, object>("read", [], readerCore);
    await readers.ask({ kind: "open", protocol, port, connections, streamsPerConnection: 1 });
    return new Side(name, connections, server, readers);
  }

  async round(counts: boolean): Promise<void> {
    // Since the last round it may have broken its silence.
    const before = await this.#quiet();
    const { ms, cpuMicros } = await this.server.ask({ blocks: blockCount });
    this.#roundBytes = (await this.#quiet()) - before;
    const updates = blockCount * this.connections;
    if (!counts) return;
    this.#cpuMicros.push(cpuMicros / updates);
    this.#messagesPerSecond.push((updates * 1_000) / ms);
  }

  outcome(): Compared {
    return {
      name: this.name,
      cpuMicros: this.#cpuMicros,
      messagesPerSecond: this.#messagesPerSecond,
      roundBytes: this.#roundBytes,
    };
  }

  stop(): void {
    this.server.stop();
    this.readers.stop();
  }

  /** Bytes that each reader got, once nothing more comes. @throws Error when they did not all get the same */
  async #quiet(): Promise<number> {
    const until = performance.now() + arrivalMaxMs;
    let before = -1;
    for (;;) {
      const { least, most, lost } = await this.readers.ask({ kind: "bytes" });
      if (lost > 0) throw new Error(`${this.name}: ${lost} connections were lost`);
      if (least === most && least === before) return least;
      if (performance.now() > until) throw new Error(`${this.name}: readers got ${least} to ${most} bytes`);
      before = most;
      await sleep(100);
    }
  }
}
