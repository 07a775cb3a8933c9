import { defineConfig } from "vitest/config";

const common = { testTimeout: 30_000, hookTimeout: 60_000, pool: "forks" } as const;

/** Run once more as an operator would who switches the adjustments of Node and V8 off (test/support/tuning.ts). */
const untuned = [
  "test/e2e/responses.test.ts",
  "test/transport/grpc/grpc-calls.test.ts",
  "test/transport/http/http-responses.test.ts",
  "test/transport/http/repeated-gets.test.ts",
];

export default defineConfig({
  test: {
    globalSetup: ["test/support/global-setup.ts"],
    // Two cores: more workers than that only wait for each other and for the database.
    maxWorkers: 2,
    projects: [
      { test: { ...common, name: "tuning on", include: ["test/**/*.test.ts"] } },
      { test: { ...common, name: "tuning off", include: untuned, env: { MARKETD_TUNING: "off" } } },
    ],
  },
});
