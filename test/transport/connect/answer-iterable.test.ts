import { createHandlerContext } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { TradingDataService } from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { Failure } from "../../../src/domain/failure.js";
import { answerIterable } from "../../../src/transport/connect/answer-iterable.js";
import { ConnectCall } from "../../../src/transport/connect/connect-context.js";
import { depthUpdate, TestStream } from "../fake-api.js";

const stalled = new Failure("resource_exhausted", "nothing was read", { reason: "READER_STALLED" });

test.for([
  { name: "that the reader left", failure: undefined, reason: "CLIENT_LEFT" },
  { name: "why it was cut from here", failure: stalled, reason: "READER_STALLED" },
])("a write that fails, by any name, tells $name", async ({ failure, reason }) => {
  const context = createHandlerContext({
    service: TradingDataService,
    method: TradingDataService.method.observeMarketsDepthUpdates,
    protocolName: "grpc",
    requestMethod: "POST",
    url: "http://localhost/",
  });
  const stream = new TestStream();
  stream.give(depthUpdate(1n));
  const messages = answerIterable(stream, new ConnectCall(context), 1_000, () => {});
  expect(await messages.next()).toMatchObject({ done: false });
  if (failure !== undefined) stream.fail(failure);
  // What Node 22 and later say of a write that was pending when its stream was closed; Node 20 says nothing.
  const thrown = Object.assign(new Error("write ECANCELED"), { code: "ECANCELED" });
  await expect(messages.throw(thrown)).rejects.toMatchObject({ reason });
  expect(stream.closed).toBe(true);
});
