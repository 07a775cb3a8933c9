import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { pinnedTo } from "./pinned.js";

/** What load is put on. */
export interface MeasuredServer {
  readonly name: string;
  readonly port: number;
  /** CPU time used so far, in microseconds, of all its threads and processes. */
  cpuMicros(): Promise<number>;
}

/** A compared server in a process of its own. */
export class ServerProcess implements MeasuredServer {
  readonly name: string;
  readonly port: number;
  readonly #child: ChildProcess;

  private constructor(name: string, port: number, child: ChildProcess) {
    this.name = name;
    this.port = port;
    this.#child = child;
  }

  /** Starts `serve.js KIND SAMPLE` on the first core; the sample is a file. */
  static async start(kind: string, sampleFile: string): Promise<ServerProcess> {
    const script = fileURLToPath(new URL("./serve.js", import.meta.url));
    const [program, args] = pinnedTo(0, process.execPath, [script, kind, sampleFile]);
    const child = spawn(program, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    const exited = new Promise<never>((_resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`the server "${kind}" ended with ${code}`)));
    });
    exited.catch(() => {});
    const { port } = await Promise.race([message<{ port: number }>(child), exited]);
    return new ServerProcess(kind, port, child);
  }

  async cpuMicros(): Promise<number> {
    const response = message<{ cpuMicros: number }>(this.#child);
    this.#child.send("cpu");
    return (await response).cpuMicros;
  }

  stop(): void {
    this.#child.kill();
  }
}

function message<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve) => child.once("message", (value) => resolve(value as T)));
}
