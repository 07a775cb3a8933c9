import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { data, FrameConnection, flag, frameType, headers, postFields } from "../../support/http2-frames.js";
import { type RpcServer, startRpcServer } from "../grpc/rpc-server.js";

/*
 * Go's clients break off a request that they are still sending once they have read the last message. If the response
 * ends in a later frame, the reset for the missing bytes of the request can overtake it, and the client sees an error.
 */

describe("the frame of a response's last message ends the response", () => {
  let server: RpcServer;
  beforeAll(async () => {
    server = await startRpcServer({ requestBodyBytesMax: 1_000 });
  });
  afterAll(() => server.close());

  test.each([
    ["application/grpc-web+proto", "GetMarket"],
    ["application/connect+proto", "ObserveMarketsDepthUpdates"],
    ["application/proto", "GetMarket"],
  ])("%s", async (type, method) => {
    const connection = await FrameConnection.open(server.port);
    const path = `/datanode.api.v2.TradingDataService/${method}`;
    // An envelope of four gigabytes, or more bytes than are taken.
    connection.send(headers(1, postFields(path, type)), data(1, Buffer.alloc(1_500, 0xff)));
    const last = await connection.frame((one) => one.type === frameType.data && one.payload.length > 0);
    connection.close();
    expect(last?.payload.toString("latin1")).toContain("is larger than");
    expect(last?.flags).toBe(flag.endStream);
  });
});
