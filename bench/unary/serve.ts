// One of the compared servers, in a process of its own: `serve.js KIND SAMPLE`. Tells its port by a message to its parent, and
// its CPU time so far whenever it is asked.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { Server as GrpcServer, ServerCredentials } from "@grpc/grpc-js";
import { fastify } from "fastify";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { jsonOptions, openMarketd } from "../../src/connect/open-marketd.js";
import { envelope } from "../../src/transport/call/framing.js";
import { depthPath, depthRpcPath, type Sample, sampleMessage } from "./sample.js";

/** Each listens, gives the sample's response to all who ask, and tells its port. */
const servers: Record<string, (sample: Sample) => Promise<number>> = {
  rawHttp({ headers, json }) {
    const body = Buffer.from(json, "base64");
    const fields = { ...headers, "content-length": body.length };
    return listening(
      createServer((_request, response) => {
        response.writeHead(200, fields);
        response.end(body);
      }),
    );
  },

  async fastify({ headers, json }) {
    const body = Buffer.from(json, "base64");
    const app = fastify();
    app.get(depthPath(":marketId"), (_request, reply) => {
      reply.headers(headers).send(body);
    });
    await app.listen({ host: "127.0.0.1", port: 0 });
    return (app.server.address() as AddressInfo).port;
  },

  rawHttp2({ binary }) {
    const frame = envelope(0, Buffer.from(binary, "base64"));
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

  grpcJs({ binary }) {
    const bytes = Buffer.from(binary, "base64");
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

  connect(sample) {
    const message = sampleMessage(sample);
    const adapter = connectNodeAdapter({
      routes: (router) => {
        router.rpc(TradingDataService.method.getLatestMarketDepth, () => message);
      },
    });
    return listening(createHttp2Server(adapter));
  },

  async handlers(sample) {
    return listening(createHttp2Server(await handlersOf(sample)));
  },

  async handlersHttp1(sample) {
    return listening(createServer(await handlersOf(sample)));
  },
};

/** `marketd/connect` on the store, as a team would mount it. */
async function handlersOf({ databaseUrl = "" }: Sample): Promise<ReturnType<typeof connectNodeAdapter>> {
  const { routes } = await openMarketd({ database: databaseUrl });
  return connectNodeAdapter({ routes, jsonOptions });
}

function listening(server: {
  listen(port: number, host: string, then: () => void): unknown;
  address(): unknown;
}): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
}

const [kind = "", sampleFile = ""] = process.argv.slice(2);
const start = servers[kind];
if (start === undefined) throw new Error(`no server "${kind}"`);
const port = await start(JSON.parse(readFileSync(sampleFile, "utf8")));
process.on("message", () => process.send?.({ cpuMicros: cpuMicros() }));
process.on("disconnect", () => process.exit());
process.send?.({ port });

function cpuMicros(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}
