import { request as httpRequest } from "node:http";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  GetMarketRequestSchema,
  GetMarketResponseSchema,
  ObserveMarketsDepthUpdatesRequestSchema,
} from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { fromText } from "../../support/rpc-bytes.js";
import { depthMessage, hotResponse } from "./fake-api.js";
import { envelope, pieces, splitEnvelopes } from "./raw-call.js";
import { type RpcServer, startRpcServer } from "./rpc-server.js";

/* gRPC-Web in base64, as Google's own client reads it: in whole groups of four characters, as they arrive. */

const service = "/datanode.api.v2.TradingDataService";

let server: RpcServer;
beforeAll(async () => {
  server = await startRpcServer();
});
afterAll(() => server.close());

interface TextResponse {
  readonly contentType: string | undefined;
  /** The body as it had arrived after each chunk. */
  readonly arrived: readonly string[];
  readonly body: Buffer;
}

function post(method: string, parts: readonly string[], contentType: string): Promise<TextResponse> {
  return new Promise((resolve, reject) => {
    const path = `${service}/${method}`;
    const headers = { "content-type": contentType };
    const sent = httpRequest({ host: "127.0.0.1", port: server.port, method: "POST", path, headers }, (response) => {
      let text = "";
      const arrived: string[] = [];
      response.on("data", (chunk: Buffer) => {
        text += chunk.toString("latin1");
        arrived.push(text);
      });
      response.on("end", () => {
        resolve({ contentType: response.headers["content-type"], arrived, body: fromText(Buffer.from(text)) });
      });
    });
    sent.on("error", reject);
    for (const part of parts) sent.write(part);
    sent.end();
  });
}

const hot = envelope(0, toBinary(GetMarketRequestSchema, create(GetMarketRequestSchema, { marketId: "hot" })));
const base64 = hot.toString("base64");

function depth(script: string): string {
  const request = create(ObserveMarketsDepthUpdatesRequestSchema, { marketIds: [script] });
  return envelope(0, toBinary(ObserveMarketsDepthUpdatesRequestSchema, request)).toString("base64");
}

test.each([
  ["in one piece", [base64]],
  ["character by character", [...base64]],
  ["in parts with padding of their own", pieces(hot, 4).map((part) => Buffer.from(part).toString("base64"))],
])("a unary call whose request comes %s", async (_how, parts) => {
  const { contentType, body } = await post("GetMarket", parts, "application/grpc-web-text");
  expect(contentType).toBe("application/grpc-web-text+proto");
  const [message = Buffer.alloc(0), trailers] = splitEnvelopes(body);
  expect(fromBinary(GetMarketResponseSchema, message)).toEqual(hotResponse.message());
  expect(trailers?.toString()).toBe("grpc-status: 0\r\n");
});

test("a stream can be decoded whenever a part of it has arrived", async () => {
  const { arrived, body } = await post(
    "ObserveMarketsDepthUpdates",
    [depth("later three")],
    "application/grpc-web-text+proto",
  );
  const expected = ["a", "b", "c"].map((id) => Buffer.from(depthMessage(id).binary()).toString("hex"));
  expect(
    splitEnvelopes(body)
      .slice(0, 3)
      .map((message) => message.toString("hex")),
  ).toEqual(expected);
  for (const text of arrived) {
    expect(text.length % 4).toBe(0);
    expect(body.subarray(0, fromText(Buffer.from(text)).length)).toEqual(fromText(Buffer.from(text)));
  }
});

test.each([
  ["a character of another alphabet", [`${base64.slice(0, -1)}!`]],
  ["an incomplete group", [base64.slice(0, -1)]],
  ["padding inside of a group", [`${base64.slice(0, 5)}=${base64.slice(5)}==`]],
  ["padding alone", ["===="]],
])("%s is INVALID_ARGUMENT", async (_what, parts) => {
  const { body } = await post("GetMarket", parts, "application/grpc-web-text");
  const [trailers] = splitEnvelopes(body);
  expect(trailers?.toString()).toContain("grpc-status: 3\r\ngrpc-message: protocol error: the body is not base64\r\n");
});
