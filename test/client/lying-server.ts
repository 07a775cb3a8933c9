import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";

/** What the server does with a request. */
export type Lie = (response: ServerResponse, request: IncomingMessage) => void;

/** A server that says what its test wants, over the Connect protocol, and counts what is taken of it. */
export class LyingServer {
  /** By the end of the path: a method, or `/readyz`. All others are 404. */
  readonly lies = new Map<string, Lie>();
  /** Bytes of endless responses that the client, or its system, took. */
  endlessBytes = 0;
  requests = 0;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      this.requests++;
      const path = request.url ?? "";
      const lie = [...this.lies].find(([end]) => path.endsWith(end))?.[1];
      if (lie === undefined) response.writeHead(404).end();
      else lie(response, request);
    });
  }

  static async start(): Promise<LyingServer> {
    const server = new LyingServer();
    server.#server.listen(0, "127.0.0.1");
    await once(server.#server, "listening");
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** A response that begins so and never ends. */
  endless(status: number, contentType: string, start: Uint8Array = Buffer.of()): Lie {
    return (response) => {
      response.writeHead(status, { "content-type": contentType }).write(start);
      const chunk = Buffer.alloc(1024 * 1024, "x");
      const write = () => {
        while (!response.destroyed) {
          this.endlessBytes += chunk.length;
          if (!response.write(chunk)) return void response.once("drain", write);
        }
      };
      write();
    };
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

/** A whole response of a unary method. */
export function unary<S extends DescMessage>(schema: S, message: () => MessageInitShape<S>): Lie {
  return (response) => {
    response.writeHead(200, { "content-type": "application/proto" }).end(toBinary(schema, create(schema, message())));
  };
}

/** A stream of these messages. Without trailers it stays open after them. */
export function stream<S extends DescMessage>(
  schema: S,
  messages: readonly MessageInitShape<S>[],
  trailers?: Readonly<Record<string, string>>,
): Lie {
  return (response) => {
    response.writeHead(200, { "content-type": "application/connect+proto" });
    for (const message of messages) response.write(envelope(0, toBinary(schema, create(schema, message))));
    if (trailers === undefined) return;
    const metadata = Object.fromEntries(Object.entries(trailers).map(([name, value]) => [name, [value]]));
    response.end(envelope(2, Buffer.from(JSON.stringify({ metadata }))));
  };
}

/** A message of a stream: flags, length, and bytes, which may be fewer or more than announced. */
export function envelope(flags: number, body: Uint8Array, announced = body.length): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt8(flags);
  prefix.writeUInt32BE(announced, 1);
  return Buffer.concat([prefix, body]);
}

/** An error of Connect. */
export function failure(status: number, code: string, message: string): Lie {
  return (response) => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ code, message }));
  };
}
