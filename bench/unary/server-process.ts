import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { pinnedTo } from "./pinned.js";

/** A server in a process of its own. */
export class ServerProcess {
  readonly name: string;
  readonly port: number;
  readonly #child: ChildProcess;

  private constructor(name: string, port: number, child: ChildProcess) {
    this.name = name;
    this.port = port;
    this.#child = child;
  }

  /** Starts `serve.js KIND` on the first core, with further arguments for Node in front. */
  static async start(
    kind: string,
    headers: Record<string, string> = {},
    nodeArgs: string[] = [],
  ): Promise<ServerProcess> {
    const script = fileURLToPath(new URL("./serve.js", import.meta.url));
    const [program, args] = pinnedTo(0, process.execPath, [...nodeArgs, script, kind, JSON.stringify(headers)]);
    const child = spawn(program, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    const exited = new Promise<never>((_resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`the server "${kind}" ended with ${code}`)));
    });
    exited.catch(() => {});
    const { port } = await Promise.race([message<{ port: number }>(child), exited]);
    return new ServerProcess(kind, port, child);
  }

  /** CPU time it has used so far, in microseconds, of all its threads. */
  async cpuMicros(): Promise<number> {
    const answer = message<{ cpuMicros: number }>(this.#child);
    this.#child.send("cpu");
    return (await answer).cpuMicros;
  }

  stop(): void {
    this.#child.kill();
  }
}

function message<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve) => child.once("message", (value) => resolve(value as T)));
}
