import { pino } from "pino";
import { createMetrics, type Metrics } from "../../../src/telemetry/metrics.js";
import type { Readiness, TransportLimits } from "../../../src/transport/options.js";
import { startListeningServer } from "../../support/listening.js";
import { type FakeApi, fakeApi } from "./fake-api.js";

/** The real server over the fake api. */
export interface RpcServer extends FakeApi {
  /** Of both HTTP versions. */
  readonly port: number;
  readonly metrics: Metrics;
  /** Lines that were logged at error level. */
  readonly logged: string[];
  readiness: Readiness;
  /** Seconds. */
  staleness: number | undefined;
  close(): Promise<void>;
}

export async function startRpcServer(limits: Partial<TransportLimits> = {}): Promise<RpcServer> {
  const fake = fakeApi();
  const logged: string[] = [];
  const metrics = createMetrics();
  const running = await startListeningServer({
    api: fake.api,
    log: pino({ level: "error" }, { write: (line: string) => void logged.push(line) }),
    metrics,
    limits,
    readiness: () => server.readiness,
    staleness: () => server.staleness,
  });
  const server: RpcServer = {
    ...fake,
    port: running.address.port,
    metrics,
    logged,
    readiness: "ready",
    staleness: undefined,
    close: () => running.close(),
  };
  return server;
}
