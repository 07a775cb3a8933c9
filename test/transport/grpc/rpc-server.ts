import { createServer as createHttp1Server, type Server } from "node:http";
import { createServer as createHttp2Server, type Http2Server } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { pino } from "pino";
import { createMetrics, type Metrics } from "../../../src/telemetry/metrics.js";
import { createConnectHandler } from "../../../src/transport/connect/connect-handler.js";
import { createGrpcLane } from "../../../src/transport/grpc/grpc-lane.js";
import type { LaneOptions, Readiness, RequestLane } from "../../../src/transport/lane.js";
import { defaultTransportLimits, type TransportLimits } from "../../../src/transport/limits.js";
import { createRequestMetrics } from "../../../src/transport/request-metrics.js";
import { type FakeApi, fakeApi } from "./fake-api.js";

/** Both lanes on ports of their own, over the fake api. */
export interface RpcServer extends FakeApi {
  /** h2c. */
  readonly http2Port: number;
  /** HTTP/1.1; only the Connect handler. */
  readonly http1Port: number;
  readonly metrics: Metrics;
  /** Lines that were logged at error level. */
  readonly logged: string[];
  readiness: Readiness;
  close(): Promise<void>;
}

/** Starts it. `grpcLane` false: everything goes through the Connect handler. */
export async function startRpcServer(grpcLane: boolean, limits: Partial<TransportLimits> = {}): Promise<RpcServer> {
  const fake = fakeApi();
  const logged: string[] = [];
  const metrics = createMetrics();
  const options: LaneOptions = {
    api: fake.api,
    log: pino({ level: "error" }, { write: (line: string) => void logged.push(line) }),
    limits: { ...defaultTransportLimits, ...limits },
    requests: createRequestMetrics(metrics, fake.api),
    readiness: () => server.readiness,
  };
  const connect = createConnectHandler(options);
  const lane = createGrpcLane(options);
  const compat = createHttp2Server((request, response) => route(connect, request, response));
  const http2 = createHttp2Server();
  http2.on("stream", (stream, headers, ...rest) => {
    if (grpcLane && lane.accepts(headers)) lane.handle(stream, headers);
    else compat.emit("stream", stream, headers, ...rest);
  });
  const http1 = createHttp1Server((request, response) => route(connect, request, response));
  const [http2Port, http1Port] = await Promise.all([listen(http2), listen(http1)]);
  const sockets = new Set<Socket>();
  for (const each of [http2, http1]) each.on("connection", (socket: Socket) => sockets.add(socket));
  const server: RpcServer = {
    ...fake,
    http2Port,
    http1Port,
    metrics,
    logged,
    readiness: "ready",
    async close() {
      for (const socket of sockets) socket.destroy();
      await Promise.all([http2, http1].map((each) => new Promise((resolve) => each.close(resolve))));
    },
  };
  return server;
}

type Handled = Parameters<RequestLane["handle"]>;

function route(connect: RequestLane, request: Handled[0], response: Handled[1]): void {
  const path = (request.url ?? "").split("?")[0] ?? "";
  if (connect.matches(request.method ?? "", path, request.headers)) {
    connect.handle(request, response);
    return;
  }
  response.statusCode = 404;
  response.end();
}

function listen(server: Server | Http2Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
}
