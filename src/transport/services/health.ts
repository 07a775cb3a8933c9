import { create } from "@bufbuild/protobuf";
import {
  Health,
  HealthCheckResponseSchema,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from "../../../gen/grpc/health/v1/health_pb.js";
import type { EncodedResponse } from "../../domain/encoded-response.js";
import { Failure, repeated, unavailable } from "../../domain/failure.js";
import { type Api, type ResponseStream, serverStreaming, unary } from "../../domain/service.js";
import { MessageResponse } from "../../encoding/message-response.js";
import type { Readiness } from "../options.js";

/** Interval between checks of a watched state, in milliseconds. */
const healthPollMs = 500;

/** Retry delay for watches that a shutdown ends. */
const retryMs = 1_000;

/**
 * `grpc.health.v1`. The whole server (empty name) and each of these services are SERVING while the process is ready.
 * Watch ends with UNAVAILABLE once the process drains, so that it keeps no connection open.
 * https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */
export function healthMethods(services: ReadonlySet<string>, readiness: () => Readiness): Api {
  const known = (service: string): boolean => service === "" || service === Health.typeName || services.has(service);
  const status = (service: string): ServingStatus => {
    if (!known(service)) return ServingStatus.SERVICE_UNKNOWN;
    return readiness() === "ready" ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
  };
  return [
    unary(Health.method.check, ({ service }) => {
      if (known(service)) return healthResponse(status(service));
      throw new Failure("not_found", `service: no service has the name "${repeated(service)}" here`, {
        reason: "SERVICE_UNKNOWN",
        violations: [{ field: "service", description: "name a service that is served, or none for the whole server" }],
      });
    }),
    serverStreaming(Health.method.watch, ({ service }) => {
      return new HealthWatch(
        () => status(service),
        () => readiness() === "draining",
      );
    }),
  ];
}

type HealthResponse = EncodedResponse<typeof HealthCheckResponseSchema>;

function healthResponse(status: ServingStatus): HealthResponse {
  return new MessageResponse(HealthCheckResponseSchema, create(HealthCheckResponseSchema, { status }));
}

/** Sends the status first, and then each change. */
class HealthWatch implements ResponseStream<typeof HealthCheckResponseSchema> {
  readonly headers: ReadonlyMap<string, string> = new Map();
  readonly trailers: ReadonlyMap<string, string> = new Map();
  #lastStatus: ServingStatus | undefined;
  #poll: NodeJS.Timeout | undefined;

  constructor(
    private readonly status: () => ServingStatus,
    private readonly draining: () => boolean,
  ) {}

  get ended(): boolean {
    return this.failure !== undefined;
  }

  get failure(): Failure | undefined {
    if (!this.draining() || this.#lastStatus !== this.status()) return undefined;
    return unavailable("the server is draining", "DRAINING", retryMs);
  }

  take(): readonly HealthResponse[] {
    const status = this.status();
    if (status === this.#lastStatus) return [];
    this.#lastStatus = status;
    return [healthResponse(status)];
  }

  onReady(listener: () => void): void {
    clearInterval(this.#poll);
    this.#poll = setInterval(listener, healthPollMs);
    this.#poll.unref();
  }

  close(): void {
    clearInterval(this.#poll);
  }
}
