import { describe, expect, test } from "vitest";
import { serviceTests } from "./service-tests.js";
import { readSource } from "./sources.js";

describe("whatever starts a service is tried on both gRPC lanes", () => {
  const tests = serviceTests();

  test("in its own process or in another, by itself or by what it imports", () => {
    expect(tests).toEqual(
      expect.arrayContaining([
        "test/e2e/command.test.ts", // runs the command
        "test/e2e/workers.test.ts", // lets another file run it
        "test/live/doors.test.ts", // lets another file start a service, which starts a server
        "test/transport/server.test.ts",
      ]),
    );
    expect(tests).not.toContain("test/live/live.test.ts");
  });

  test("and stays on the lane of its run, but where both lanes are compared", () => {
    const naming = tests.filter((path) =>
      /grpcLane: (true|false)|startRpcServer\(.*(true|false)/.test(readSource(path)),
    );
    expect(naming).toEqual(["test/transport/grpc/lanes-agree.test.ts"]);
  });
});
