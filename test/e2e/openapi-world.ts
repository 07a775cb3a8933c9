import { mkdtemp, rm } from "node:fs/promises";
import { createServer, request as httpRequest, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { networkDefaults, simulate } from "../../src/simulator/network.js";
import { type Document, liveExamples, withExamples } from "../../web/docs/live-examples.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { ServiceProcess } from "./service-process.js";

export const basePath = "/data";

const lineEnd = 0x0a;

/** A service behind a base path, over a simulated network. */
export class OpenApiWorld {
  folder = "";
  #service: ServiceProcess | undefined;

  async start(): Promise<void> {
    this.folder = await mkdtemp(join(tmpdir(), "marketd-openapi-"));
    const database = newDatabaseUrl();
    await loadRecording(database.url, Buffer.concat([...simulate({ ...networkDefaults, blocks: 200 })]));
    this.#service = new ServiceProcess(database.url, await freePort(), "--base-path", basePath);
    await this.#service.start();
  }

  async stop(): Promise<void> {
    await this.#service?.kill();
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Without base path. */
  get origin(): string {
    return this.#service?.url ?? "";
  }

  get url(): string {
    return `${this.origin}${basePath}`;
  }

  async getJson(path: string): Promise<unknown> {
    return (await fetch(`${this.url}/${path}`)).json();
  }

  /** openapi.json, with examples of what this service has. */
  async document(): Promise<Document> {
    return withExamples((await this.getJson("openapi.json")) as Document, await this.examples());
  }

  examples(): Promise<Map<string, unknown>> {
    return liveExamples((path) => this.getJson(path));
  }
}

/** Forwards requests, and ends streams after their first message, for clients that wait for the end of a response. */
export async function cutStreams(target: string): Promise<{ readonly url: string; close(): void }> {
  const { hostname, port } = new URL(target);
  const server: Server = createServer((request, response) => {
    const { method, headers, url: path } = request;
    const forwarded = httpRequest({ hostname, port, method, headers, path }, (received) => {
      response.writeHead(received.statusCode ?? 0, received.headers);
      const isEndless = method === "GET" && received.statusCode === 200 && /^[^?]*\/stream\//.test(path ?? "");
      if (!isEndless) {
        received.pipe(response);
        return;
      }
      // A piece that was read before may still follow the end.
      received.on("data", (piece: Buffer) => {
        if (response.writableEnded) return;
        response.write(piece);
        if (piece.at(-1) !== lineEnd) return;
        response.end();
        received.destroy();
      });
      // A replay of no blocks ends without a line.
      received.on("end", () => response.end());
    });
    forwarded.on("error", () => response.destroy());
    request.pipe(forwarded);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
