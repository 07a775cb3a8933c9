import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { pinnedTo } from "../unary/pinned.js";
import type { PageKind } from "./requests.js";

/** `plain.js` in a process of its own, on the first core. */
export class PlainServer {
  readonly name = "plain";
  readonly #child: ChildProcess;
  readonly #port: number;
  readonly #grpcPort: number;

  private constructor(child: ChildProcess, port: number, grpcPort: number) {
    this.#child = child;
    this.#port = port;
    this.#grpcPort = grpcPort;
  }

  /** Resolves when it listens. @throws Error when it ends instead */
  static async start(databaseUrl: string): Promise<PlainServer> {
    const script = fileURLToPath(new URL("./plain.js", import.meta.url));
    const [program, args] = pinnedTo(0, process.execPath, [script, databaseUrl]);
    const child = spawn(program, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    const exited = once(child, "exit").then(([code]) => {
      throw new Error(`the plain server ended with ${code}`);
    });
    exited.catch(() => {});
    const [message] = await Promise.race([once(child, "message"), exited]);
    return new PlainServer(child, message.port, message.grpcPort);
  }

  urlOf({ protocol, path, plain }: PageKind): string {
    if (protocol === "grpc") return `http://127.0.0.1:${this.#grpcPort}${path}`;
    return `http://127.0.0.1:${this.#port}/?list=${plain?.list}&rows=${plain?.rows}`;
  }

  async cpuMicros(): Promise<number> {
    const response = once(this.#child, "message");
    this.#child.send("cpu");
    const [{ cpuMicros }] = await response;
    return cpuMicros;
  }

  stop(): void {
    this.#child.kill();
  }
}
