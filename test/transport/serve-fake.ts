import { createLog } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import type { ServerOptions } from "../../src/transport/server.js";
import { type ListeningServer, startListeningServer } from "../support/listening.js";
import { type FakeService, fakeService } from "./fake-api.js";

/** Starts a server on a free port over a fake service. */
export async function serveFake(
  options: Partial<ServerOptions> = {},
): Promise<{ readonly server: ListeningServer; readonly service: FakeService; readonly url: string }> {
  const service = fakeService();
  const server = await startListeningServer({
    api: service.api,
    log: createLog("silent"),
    metrics: createMetrics(),
    readiness: () => "ready",
    ...options,
  });
  return { server, service, url: server.url };
}
