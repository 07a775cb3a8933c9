import { createLog } from "../../src/telemetry/log.js";
import { createMetrics } from "../../src/telemetry/metrics.js";
import { type RunningServer, type ServerOptions, startServer } from "../../src/transport/server.js";
import { type FakeService, fakeService } from "./fake-api.js";

/** Starts a server on a free port over a fake service. */
export async function serveFake(
  options: Partial<ServerOptions> = {},
): Promise<{ readonly server: RunningServer; readonly service: FakeService; readonly url: string }> {
  const service = fakeService();
  const server = await startServer({
    api: service.api,
    listen: { host: "127.0.0.1", port: 0 },
    log: createLog("silent"),
    metrics: createMetrics(),
    readiness: () => "ready",
    ...options,
  });
  return { server, service, url: server.url };
}
