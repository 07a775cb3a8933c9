import { describe, expect, test } from "vitest";
import { grpcTests } from "./grpc-tests.js";
import { readSource } from "./sources.js";

describe("whatever speaks gRPC to a service is tried on both lanes", () => {
  const tests = grpcTests();

  test("by a library or byte by byte, to a server or to a process, itself or by what it imports", () => {
    expect(tests).toEqual(
      expect.arrayContaining([
        "test/e2e/decisions.test.ts", // by a library that another file uses, to a process that another file starts
        "test/live/doors-stalled.test.ts", // byte by byte, to a service that another file starts
        "test/transport/connect/reflection-health.test.ts", // by grpcurl, too
        "test/transport/grpc/grpc-js-peer.test.ts", // by a library, to a server
      ]),
    );
    expect(tests).not.toContain("test/live/live.test.ts"); // starts no service
    expect(tests).not.toContain("test/e2e/browser.test.ts"); // browsers cannot speak it
  });

  test("and stays on the lane of its run, but where both lanes are compared", () => {
    const naming = tests.filter((path) =>
      /grpcLane: (true|false)|startRpcServer\(.*(true|false)/.test(readSource(path)),
    );
    expect(naming).toEqual(["test/transport/grpc/lanes-agree.test.ts"]);
  });
});
