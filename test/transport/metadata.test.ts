import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  GetMarketResponseSchema,
  type ObserveMarketsDepthUpdatesResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { blockMetadata } from "../../src/domain/block-headers.js";
import { Failure } from "../../src/domain/failure.js";
import type { Metadata } from "../../src/domain/metadata.js";
import { type Api, type Call, serverStreaming, unary } from "../../src/domain/service.js";
import { MessageResponse } from "../../src/encoding/message-response.js";
import { envelope } from "../../src/transport/call/framing.js";
import type { ListeningServer } from "../support/listening.js";
import { RawConnection } from "../support/raw-http.js";
import { type RpcVariant, rpcVariants, sendBytes } from "../support/rpc-bytes.js";
import { FakeStream } from "./grpc/fake-api.js";
import { serveFake } from "./serve-fake.js";

/*
 * What a request says beside its message reaches the api, and what the api says beside a message reaches the client: in
 * every form of every protocol.
 */

/** What the client sent as `x-sent`, given back as a header and as a trailer. */
function echo(call: Call): Metadata {
  const sent = String(call.requestHeaders["x-sent"]);
  return { headers: new Map([["x-first", `${sent} first`]]), trailers: new Map([["x-last", `${sent} last`]]) };
}

function fail(call: Call): never {
  throw new Failure("failed_precondition", "no", { reason: "NO", metadata: echo(call) });
}

class EchoStream extends FakeStream<typeof ObserveMarketsDepthUpdatesResponseSchema> {
  override readonly headers: Map<string, string>;
  override readonly trailers: Map<string, string>;
  override ended = true;

  constructor(call: Call) {
    super();
    const { headers, trailers } = echo(call);
    this.headers = new Map(headers);
    this.trailers = new Map(trailers);
  }
}

const api: Api = [
  unary(TradingDataService.method.getMarket, ({ marketId }, call) => {
    if (marketId === "failing") fail(call);
    const read = marketId === "read at 7" ? blockMetadata({ height: 7n, timeNs: 70n }) : blockMetadata(undefined);
    const metadata = marketId.startsWith("read") ? read : echo(call);
    const parts = { version: "v1", metadata };
    return new MessageResponse(GetMarketResponseSchema, create(GetMarketResponseSchema), parts);
  }),
  serverStreaming(TradingDataService.method.observeMarketsDepthUpdates, ({ marketIds }, call) => {
    return marketIds[0] === "failing" ? fail(call) : new EchoStream(call);
  }),
];

const service = "/datanode.api.v2.TradingDataService";

describe("metadata", () => {
  let server: ListeningServer;
  beforeAll(async () => {
    ({ server } = await serveFake({ api }));
  });
  afterAll(() => server.close());

  const outcomes = [
    ["", 0],
    ["failing", Code.FailedPrecondition],
  ] as const;
  const cases = rpcVariants.flatMap((variant) => outcomes.map(([id, code]) => ({ ...variant, variant, id, code })));
  test.each(cases)("$protocol, $contentType, code $code", async ({ variant, id, code }) => {
    const stream = variant.protocol === "connect-stream";
    const path = `${service}/${stream ? "ObserveMarketsDepthUpdates" : "GetMarket"}`;
    const outcome = await sendBytes(server.address.port, variant, path, requestOf(variant, stream, id), {
      "x-sent": "it",
    });
    expect(outcome.code).toBe(code);
    expect(outcome.headers).toMatchObject({ "x-first": "it first" });
    expect(outcome.trailers).toMatchObject({ "x-last": "it last" });
  });

  const streams = cases.filter(({ protocol }) => protocol === "grpc" || protocol === "grpc-web");
  test.each(streams)("a stream of $protocol, $contentType, code $code", async ({ variant, id, code }) => {
    const path = `${service}/ObserveMarketsDepthUpdates`;
    const outcome = await sendBytes(server.address.port, variant, path, requestOf(variant, true, id), {
      "x-sent": "it",
    });
    expect(outcome.code).toBe(code);
    expect(outcome.headers).toMatchObject({ "x-first": "it first" });
    expect(outcome.trailers).toMatchObject({ "x-last": "it last" });
  });

  test("the HTTP API sends the headers, to who asks again too", async () => {
    const connection = await RawConnection.open(server.address.port);
    for (const id of ["any", "failing"]) {
      for (let n = 0; n < 40; n++) {
        const { status, head } = await connection.ask(
          `GET /api/v2/market/${id} HTTP/1.1\r\nHost: a\r\nx-sent: ${id}\r\n\r\n`,
        );
        expect(status).toBe(id === "any" ? 200 : 400);
        expect(head).toContain(`x-first: ${id} first\r\n`);
      }
    }
    connection.close();
  });
});

describe("what a statement read", () => {
  let server: ListeningServer;
  beforeAll(async () => {
    const newest = { height: 9n, timeNs: 90n };
    ({ server } = await serveFake({ api, newestBlock: () => newest }));
  });
  afterAll(() => server.close());

  const unaryVariants = rpcVariants.filter(({ protocol }) => protocol !== "connect-stream");
  const outcomes = [
    ["read at 7", "7"],
    ["read nothing", undefined],
  ] as const;
  const cases = unaryVariants.flatMap((variant) => outcomes.map(([id, block]) => ({ ...variant, variant, id, block })));
  test.each(cases)("names its block, and not that of the process: $protocol, $contentType, $id", async (one) => {
    const body = requestOf(one.variant, false, one.id);
    const { headers } = await sendBytes(server.address.port, one.variant, `${service}/GetMarket`, body, {});
    expect(headers["x-block-height"]).toBe(one.block);
  });

  test.each([...outcomes, ["any", undefined] as const])("names its block over HTTP: %s", async (id, block) => {
    const { headers } = await fetch(`${server.url}/api/v2/market/${encodeURIComponent(id)}`);
    expect(headers.get("x-block-height") ?? undefined).toBe(block);
  });
});

function requestOf(variant: RpcVariant, stream: boolean, id: string): Buffer {
  const json = JSON.stringify(stream ? { marketIds: [id] } : { marketId: id });
  // Either field has the number 1.
  const message = variant.json ? Buffer.from(json) : Buffer.concat([Buffer.from([0x0a, id.length]), Buffer.from(id)]);
  return variant.enveloped ? envelope(0, message) : message;
}
