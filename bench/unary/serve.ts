// One of the compared servers, in a process of its own: `serve.js KIND`. Tells its port by a message to its parent, and
// its CPU time so far whenever it is asked.
import { createServer } from "node:http";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { Server as GrpcServer, ServerCredentials } from "@grpc/grpc-js";
import { fastify } from "fastify";
import { pino } from "pino";
import { GetLatestMarketDepthRequestSchema, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { requireIdentifier } from "../../src/domain/identifier.js";
import { unary } from "../../src/domain/service.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { binaryEnvelope } from "../../src/transport/grpc/envelope.js";
import { startServer } from "../../src/transport/server.js";
import { depthAnswer, depthPath, depthRpcPath, marketId } from "./depth.js";

/** Each listens and gives its port. `headers` are those of our own JSON answer, for the servers that imitate it. */
const servers: Record<string, (headers: Record<string, string>) => Promise<number>> = {
  async ours() {
    const answer = depthAnswer();
    const books = new Map([[marketId, answer]]);
    const api = [
      unary(TradingDataService.method.getLatestMarketDepth, (request) => {
        const book = books.get(requireIdentifier("marketId", request.marketId));
        if (book === undefined) throw new Error("no such market");
        return book;
      }),
    ];
    const log = pino({ level: "silent" });
    const listen = { host: "127.0.0.1", port: 0 };
    const server = await startServer({ api, listen, log, metrics: createMetrics(), readiness: () => "ready" });
    return Number(new URL(server.url).port);
  },

  rawHttp(headers) {
    const body = depthAnswer().json();
    const fields = { ...headers, "content-length": body.length };
    return listening(
      createServer((_request, response) => {
        response.writeHead(200, fields);
        response.end(body);
      }),
    );
  },

  async fastify(headers) {
    const body = Buffer.from(depthAnswer().json());
    const app = fastify();
    app.get(depthPath.replace(marketId, ":marketId"), (_request, reply) => {
      reply.headers(headers).send(body);
    });
    await app.listen({ host: "127.0.0.1", port: 0 });
    return (app.server.address() as AddressInfo).port;
  },

  rawHttp2() {
    const frame = depthAnswer().as(binaryEnvelope);
    const headers = { ":status": 200, "content-type": "application/grpc+proto" };
    const options = { waitForTrailers: true };
    const trailers = { "grpc-status": "0" };
    const server = createHttp2Server();
    server.on("stream", (stream: ServerHttp2Stream) => {
      // Does not even wait for the request's end.
      stream.on("wantTrailers", () => stream.sendTrailers(trailers));
      stream.respond(headers, options);
      stream.end(frame);
      stream.resume();
    });
    return listening(server);
  },

  grpcJs() {
    const bytes = Buffer.from(depthAnswer().binary());
    const server = new GrpcServer();
    const method = {
      path: depthRpcPath,
      requestStream: false,
      responseStream: false,
      requestSerialize: (request: Buffer) => request,
      requestDeserialize: (request: Buffer) => request,
      responseSerialize: (response: Buffer) => response,
      responseDeserialize: (response: Buffer) => response,
    } as const;
    server.addService(
      { depth: method },
      { depth: (_call: unknown, callback: (error: null, bytes: Buffer) => void) => callback(null, bytes) },
    );
    return new Promise((resolve, reject) => {
      server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => {
        if (error) reject(error);
        else resolve(port);
      });
    });
  },

  connect() {
    const message = depthAnswer().message();
    const adapter = connectNodeAdapter({
      routes: (router) => {
        router.rpc(TradingDataService.method.getLatestMarketDepth, () => message);
      },
    });
    return listening(createHttp2Server(adapter));
  },
};

function listening(server: {
  listen(port: number, host: string, then: () => void): unknown;
  address(): unknown;
}): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
}

const [kind = "", headers = "{}"] = process.argv.slice(2);
const start = servers[kind];
if (start === undefined) throw new Error(`no server "${kind}" for ${GetLatestMarketDepthRequestSchema.typeName}`);
const port = await start(JSON.parse(headers));
process.on("message", () => process.send?.({ cpuMicros: cpuMicros() }));
process.on("disconnect", () => process.exit());
process.send?.({ port });

function cpuMicros(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}
