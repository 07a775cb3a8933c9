import http from "node:http";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { Client, credentials, type ServiceError } from "@grpc/grpc-js";
import {
  GetLatestMarketDepthRequestSchema,
  GetLatestMarketDepthResponseSchema,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import type { BystanderOrder, Probe, ProbeReading } from "./bystander-messages.js";

/** Calls of each kind a second. */
const callsPerSecond: Record<Probe, number> = {
  "kept connection": 20,
  "new connection": 10,
  gRPC: 20,
  health: 50,
  "bare server": 50,
  "ledger page": 2,
  pipelining: 2,
};

/** Calls of one kind that may be open at once; a further one waits its turn, and its wait counts as latency. */
const openMax = 50;

/** A call that takes longer counts as failed. */
const timeoutMs = 20_000;

/** A service that was restarted is called again after this pause, not after the library's two minutes. */
const reconnectMs = 200;

const unavailable = 14;
const resourceExhausted = 8;

/** What one call came to. */
type Outcome = "ok" | "refused" | { readonly failure: string };

const order = workerData as BystanderOrder;
const base = `http://127.0.0.1:${order.port}`;
const kept = new http.Agent({ keepAlive: true, maxSockets: 4 });
const grpc = new Client(`127.0.0.1:${order.port}`, credentials.createInsecure(), {
  "grpc.initial_reconnect_backoff_ms": reconnectMs,
  "grpc.max_reconnect_backoff_ms": reconnectMs,
});

class Readings {
  latenciesMs: number[] = [];
  refused = 0;
  failures: string[] = [];
  open = 0;
}

const readings = new Map<Probe, Readings>();

const calls: Record<Probe, () => Promise<Outcome>> = {
  "kept connection": () => get(`${base}/api/v2/market/depth/${order.marketId}/latest`, kept),
  "new connection": () => get(`${base}/api/v2/market/data/${order.marketId}/latest`, false),
  gRPC: depthByGrpc,
  health: () => get(`${order.adminUrl}/readyz`, false),
  "bare server": () => get(order.bareUrl, false),
  "ledger page": () => get(`${base}/api/v2/ledgerentry/history?pagination.first=100`, kept),
  pipelining: pipeline,
};

const data = `/api/v2/market/data/${order.marketId}/latest`;
/** Packets of one connection: a request, some at once behind a large response, and one after all responses. */
const packets = [[data], ["/openapi.json", data, data], [data]].map((paths) =>
  paths.map((path) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`),
);

function heads(received: string): readonly string[] {
  return received.match(/HTTP\/1\.1 \d{3} [^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n/g) ?? [];
}

/** Sends each packet once those before it have responses. */
function pipeline(): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = connect(order.port, "127.0.0.1");
    let [sent, awaited, received] = [0, 0, ""];
    const end = (outcome: Outcome): void => {
      socket.destroy();
      resolve(outcome);
    };
    const next = (): void => {
      const packet = packets[sent++];
      if (packet === undefined) {
        end("ok");
        return;
      }
      awaited += packet.length;
      socket.write(packet.join(""));
    };
    socket.setTimeout(timeoutMs, () => end({ failure: `${heads(received).length} of ${awaited} responses` }));
    socket.on("error", (error) => end({ failure: error.message }));
    socket.on("close", () => end({ failure: "closed without a response" }));
    socket.on("connect", next);
    socket.on("data", (bytes) => {
      received += bytes.toString("latin1");
      const found = heads(received);
      const other = found.find((head) => !head.startsWith("HTTP/1.1 200 "));
      if (other !== undefined) end(/^retry-after:/im.test(other) ? "refused" : { failure: other.slice(0, 80) });
      else if (found.length === awaited) next();
    });
  });
}

function get(url: string, agent: http.Agent | false): Promise<Outcome> {
  return new Promise((resolve) => {
    const request = http.get(url, { agent, timeout: timeoutMs }, (response) => {
      response.resume();
      response.once("error", (error) => resolve({ failure: error.message }));
      response.once("end", () => {
        const { statusCode = 0, headers } = response;
        if (statusCode === 200) resolve("ok");
        else if ((statusCode === 503 || statusCode === 429) && headers["retry-after"] !== undefined) resolve("refused");
        else resolve({ failure: `status ${statusCode}` });
      });
    });
    request.once("timeout", () => request.destroy(new Error(`no response within ${timeoutMs} ms`)));
    request.once("error", (error: NodeJS.ErrnoException) => resolve({ failure: error.code ?? error.message }));
  });
}

function depthByGrpc(): Promise<Outcome> {
  return new Promise((resolve) => {
    grpc.makeUnaryRequest(
      "/datanode.api.v2.TradingDataService/GetLatestMarketDepth",
      (marketId: string) => {
        const request = { $typeName: GetLatestMarketDepthRequestSchema.typeName, marketId } as const;
        return Buffer.from(toBinary(GetLatestMarketDepthRequestSchema, request));
      },
      (bytes: Buffer) => fromBinary(GetLatestMarketDepthResponseSchema, bytes),
      order.marketId,
      { deadline: Date.now() + timeoutMs },
      (error: ServiceError | null) => {
        if (error === null) resolve("ok");
        else if (error.code === unavailable || error.code === resourceExhausted) resolve(refusal(error));
        else resolve({ failure: `gRPC ${error.code} ${error.details}` });
      },
    );
  });
}

/** An honest refusal carries a status with details; a broken connection does not. */
function refusal(error: ServiceError): Outcome {
  const honest = error.metadata.get("grpc-status-details-bin").length > 0;
  return honest ? "refused" : { failure: `gRPC ${error.code} ${error.details}` };
}

async function probe(name: Probe): Promise<void> {
  const intervalMs = 1000 / callsPerSecond[name];
  for (let due = performance.now(); ; due += intervalMs) {
    await sleep(Math.max(0, due - performance.now()));
    const current = readingOf(name);
    if (current.open >= openMax) continue;
    current.open++;
    void calls[name]().then((outcome) => {
      current.open--;
      const latest = readingOf(name);
      latest.latenciesMs.push(performance.now() - due);
      if (outcome === "refused") latest.refused++;
      else if (outcome !== "ok") latest.failures.push(outcome.failure);
    });
  }
}

function readingOf(name: Probe): Readings {
  let reading = readings.get(name);
  if (reading === undefined) {
    reading = new Readings();
    readings.set(name, reading);
  }
  return reading;
}

/** Reports what there was since the last question, and forgets it. */
parentPort?.on("message", () => {
  const report: ProbeReading[] = [...readings].map(([name, reading]) => {
    const { latenciesMs, refused, failures } = reading;
    reading.latenciesMs = [];
    reading.refused = 0;
    reading.failures = [];
    return { probe: name, latenciesMs, refused, failures };
  });
  parentPort?.postMessage(report);
});

for (const name of Object.keys(calls) as Probe[]) void probe(name);
