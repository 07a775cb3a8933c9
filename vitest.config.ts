import { defineConfig } from "vitest/config";
import { grpcTests } from "./test/house/grpc-tests.js";

const common = { testTimeout: 30_000, hookTimeout: 60_000, pool: "forks" } as const;

export default defineConfig({
  test: {
    globalSetup: ["test/support/global-setup.ts"],
    // Two cores: more workers than that only wait for each other and for the database.
    maxWorkers: 2,
    projects: [
      { test: { ...common, name: "gRPC lane on", include: ["test/**/*.test.ts"], env: { MARKETD_GRPC_LANE: "on" } } },
      // Plain gRPC goes two ways, so whatever speaks it is tried on both (test/support/grpc-lane.ts).
      { test: { ...common, name: "gRPC lane off", include: grpcTests(), env: { MARKETD_GRPC_LANE: "off" } } },
    ],
  },
});
