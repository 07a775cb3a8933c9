import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pinnedTo } from "../unary/pinned.js";

/** Of what shares a core with what measures: it waits while that has something to do. */
export const backgroundPriority = 19;

/** A script of this bench in a process of its own, which answers one order at a time. */
export class Child<Order, Reply> {
  readonly #child: ChildProcess;
  readonly #ended: Promise<never>;

  private constructor(child: ChildProcess, name: string) {
    this.#child = child;
    this.#ended = new Promise<never>((_resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`"${name}" ended with ${code}`)));
    });
    this.#ended.catch(() => {});
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Starts `SCRIPT.js ARGS` in `folder`, on one core only where one is given, and waits for its first word. */
  static async start<Order, Reply, First>(
    script: string,
    args: readonly string[],
    core: number | undefined,
    nodeArgs: readonly string[] = [],
    folder = fileURLToPath(new URL(".", import.meta.url)),
  ): Promise<[Child<Order, Reply>, First]> {
    const all = [...nodeArgs, join(folder, `${script}.js`), ...args];
    const [program, programArgs] = core === undefined ? [process.execPath, all] : pinnedTo(core, process.execPath, all);
    const child = spawn(program, programArgs, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    const started = new Child<Order, Reply>(child, `${script} ${args.join(" ")}`);
    return [started, (await started.#next()) as First];
  }

  async ask(order: Order): Promise<Reply> {
    const reply = this.#next();
    this.#child.send(order as object);
    return (await reply) as Reply;
  }

  stop(): void {
    // It ends itself at that, in order, so that a profile of it is written.
    this.#child.disconnect();
  }

  #next(): Promise<unknown> {
    const message = new Promise((resolve) => this.#child.once("message", resolve));
    return Promise.race([message, this.#ended]);
  }
}

/** The other side: says that it is there, then answers orders in turn. */
export function serveOrders<Order, Reply>(first: object, respond: (order: Order) => Promise<Reply> | Reply): void {
  process.on("message", (order: Order) => {
    void Promise.resolve(respond(order)).then((reply) => process.send?.(reply as object));
  });
  process.on("disconnect", () => process.exit());
  process.send?.(first);
}
