import { create, type MessageShape } from "@bufbuild/protobuf";
import type { ConnectRouter } from "@connectrpc/connect";
import {
  Health,
  HealthCheckResponseSchema,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from "../../../gen/grpc/health/v1/health_pb.js";
import { Failure, unavailable } from "../../domain/failure.js";
import type { Readiness } from "../lane.js";
import { toConnectError } from "./connect-error.js";

/** How often a watched state is looked at, in milliseconds. */
export const healthPollMs = 500;

/**
 * `grpc.health.v1`: the whole server (the empty name) and each of its services are SERVING while the process is ready.
 * Watch ends with UNAVAILABLE once the process drains, so that it keeps no connection open.
 * https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */
export function registerHealth(router: ConnectRouter, services: ReadonlySet<string>, readiness: () => Readiness): void {
  router.rpc(Health.method.check, (request, context) => {
    if (!known(request.service)) {
      const failure = new Failure("not_found", `service: no service has the name "${request.service}" here`, {
        reason: "SERVICE_UNKNOWN",
        violations: [{ field: "service", description: "name a service that is served, or none for the whole server" }],
      });
      throw toConnectError(failure, context.protocolName);
    }
    return response(serving());
  });
  router.rpc(Health.method.watch, async function* (request, context) {
    let told: ServingStatus | undefined;
    while (!context.signal.aborted) {
      const status = known(request.service) ? serving() : ServingStatus.SERVICE_UNKNOWN;
      if (status !== told) yield response(status);
      told = status;
      if (readiness() === "draining") {
        throw toConnectError(unavailable("the server is draining", "DRAINING", 1000), context.protocolName);
      }
      await pause(healthPollMs, context.signal);
    }
  });

  function known(service: string): boolean {
    return service === "" || services.has(service);
  }

  function serving(): ServingStatus {
    return readiness() === "ready" ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
  }
}

function response(status: ServingStatus): MessageShape<typeof HealthCheckResponseSchema> {
  return create(HealthCheckResponseSchema, { status });
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done, { once: true });
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
  });
}
