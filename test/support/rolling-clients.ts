import http from "node:http";
import { createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { credentials, Client as GrpcClient } from "@grpc/grpc-js";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";

const pauseMs = 5;

/** A client that calls again and again on the connections that its library keeps, with its library's own retries only. */
export interface RollingClient {
  readonly name: string;
  calls: number;
  readonly failures: string[];
  /** Resolves when its last call is over. */
  stop(): Promise<void>;
}

/** Clients of every kind that poll a market until they are stopped. */
export function startRollingClients(url: string, marketId: string): RollingClient[] {
  const path = `/api/v2/market/${marketId}`;
  const ofLibrary = (name: string, transport: Transport): RollingClient => {
    const client = createClient(TradingDataService, transport);
    return poll(name, async () => void (await client.getMarket({ marketId })));
  };
  const grpc = new GrpcClient(new URL(url).host, credentials.createInsecure());
  const request = Buffer.from([0x0a, marketId.length, ...Buffer.from(marketId)]);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 2 });
  return [
    poll("fetch", async () => await read(await fetch(url + path))),
    poll("fetch /readyz", async () => await read(await fetch(`${url}/readyz`))),
    poll("http.Agent", () => get(url + path, agent)),
    poll("a connection per request", () => get(url + path, false)),
    poll(
      "grpc-js",
      () =>
        new Promise((resolve, reject) => {
          const name = `/${TradingDataService.typeName}/GetMarket`;
          const bytes = (value: Buffer): Buffer => value;
          grpc.makeUnaryRequest(name, bytes, bytes, request, (error) => (error === null ? resolve() : reject(error)));
        }),
      () => grpc.close(),
    ),
    ofLibrary("Connect over HTTP/1.1", createConnectTransport({ baseUrl: url, httpVersion: "1.1" })),
    ofLibrary("Connect over HTTP/2", createConnectTransport({ baseUrl: url, httpVersion: "2" })),
    ofLibrary("Connect's gRPC", createGrpcTransport({ baseUrl: url })),
  ];
}

async function read(response: Response): Promise<void> {
  await response.text();
  if (!response.ok) throw new Error(`status ${response.status}`);
}

function get(url: string, agent: http.Agent | false): Promise<void> {
  return new Promise((resolve, reject) => {
    const asked = http.get(url, { agent }, (response) => {
      response.resume();
      response.on("error", reject);
      response.on("end", () =>
        response.statusCode === 200 ? resolve() : reject(new Error(`status ${response.statusCode}`)),
      );
    });
    asked.on("error", reject);
  });
}

function poll(name: string, call: () => Promise<void>, close = (): void => {}): RollingClient {
  let stopped = false;
  const client = { name, calls: 0, failures: [] as string[] };
  const over = (async () => {
    while (!stopped) {
      try {
        await call();
      } catch (error) {
        const { message, cause } = error as Error;
        client.failures.push(cause instanceof Error ? `${message}: ${cause.message}` : message);
      }
      client.calls += 1;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
    close();
  })();
  return Object.assign(client, {
    stop: () => {
      stopped = true;
      return over;
    },
  });
}
