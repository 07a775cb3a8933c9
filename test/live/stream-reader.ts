import { fromBinary, fromJsonString, toBinary } from "@bufbuild/protobuf";
import { expect } from "vitest";
import { ObserveMarketsDepthUpdatesResponseSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";
import type { Subscriber } from "../../src/live/subscriber.js";
import { BookChecker } from "./book-checker.js";
import type { ModelNetwork } from "./model-network.js";

/** A reader that holds every message it takes to the truth. */
export class StreamReader extends BookChecker {
  messages = 0;
  heartbeats = 0;
  calls = 0;

  constructor(
    readonly stream: Subscriber,
    network: () => ModelNetwork,
  ) {
    super(network);
    stream.onReady(() => {
      this.calls++;
    });
  }

  /** Takes once, and checks all it got. */
  take(): number {
    const responses = this.stream.take();
    for (const response of responses) {
      this.messages++;
      const message = fromBinary(ObserveMarketsDepthUpdatesResponseSchema, response.binary());
      const json = fromJsonString(ObserveMarketsDepthUpdatesResponseSchema, Buffer.from(response.json()).toString());
      expect(toBinary(ObserveMarketsDepthUpdatesResponseSchema, json)).toEqual(
        toBinary(ObserveMarketsDepthUpdatesResponseSchema, message),
      );
      if (message.update.length === 0) this.heartbeats++;
      for (const update of message.update) this.check(update);
    }
    return responses.length;
  }

  /** Takes until there is nothing. */
  drain(): void {
    while (this.take() > 0) {}
  }
}
