import { brotliCompressSync, gzipSync } from "node:zlib";
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { GetMarketRequestSchema } from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { envelope } from "../../../src/transport/call/framing.js";
import { type RpcVariant, rpcVariants, sendBytes } from "../../support/rpc-bytes.js";
import { type RpcServer, startRpcServer } from "../grpc/rpc-server.js";

/*
 * What is malformed is the client's mistake: every form of every protocol says so, and never INTERNAL or 500.
 */

const service = "/datanode.api.v2.TradingDataService";
const bytesMax = 1_000;

const request = create(GetMarketRequestSchema, { marketId: "hot" });
const noMessage = Buffer.from("0aff", "hex");
const groups = Buffer.alloc(900, 0x0b);

let server: RpcServer;
beforeAll(async () => {
  server = await startRpcServer({ requestBodyBytesMax: bytesMax });
});
afterAll(() => server.close());

const httpStatuses: Partial<Record<Code, number>> = {
  [Code.InvalidArgument]: 400,
  [Code.ResourceExhausted]: 429,
  [Code.Unimplemented]: 501,
};

/** Sends `body` to a method that the form can reach, and expects `code` with the status that it has over Connect. */
async function expectCode(
  variant: RpcVariant,
  body: Buffer,
  code: Code,
  headers: Record<string, string> = {},
): Promise<void> {
  const method = variant.protocol === "connect-stream" ? "ObserveMarketsDepthUpdates" : "GetMarket";
  const outcome = await sendBytes(server.port, variant, `${service}/${method}`, body, headers);
  const httpStatus = variant.protocol === "connect" || variant.protocol === "connect-get" ? httpStatuses[code] : 200;
  expect(outcome).toMatchObject({ httpStatus, code });
}

const wrapped = (variant: RpcVariant, message: Buffer, flags = 0): Buffer =>
  variant.enveloped ? envelope(flags, message) : message;

describe.each(rpcVariants.map((variant) => ({ name: `${variant.protocol} ${variant.contentType}`, variant })))(
  "$name",
  ({ variant }) => {
    const message = Buffer.from(
      variant.json ? toJsonString(GetMarketRequestSchema, request) : toBinary(GetMarketRequestSchema, request),
    );
    const malformed: readonly (readonly [string, Buffer])[] = variant.json
      ? [
          ["half of some JSON", Buffer.from('{"marketId":')],
          ["JSON of another type", Buffer.from('{"marketId":[{}]}')],
          ["bytes that are no UTF-8", Buffer.from([0xff, 0xfe, 0x00])],
          ["nested arrays", Buffer.from("[".repeat(900))],
        ]
      : [
          ["half of a field", noMessage],
          ["nested groups", groups],
          ["a field number of 0", Buffer.from("0001", "hex")],
          ["an endless varint", Buffer.alloc(20, 0xff)],
        ];

    test.each(malformed)("%s", async (_what, bytes) => {
      await expectCode(variant, wrapped(variant, bytes), Code.InvalidArgument);
    });

    test.each([
      ["gzip", gzipSync],
      ["br", brotliCompressSync],
    ] as const)("compressed with %s", async (coding, compress) => {
      const headers = { [variant.encodingName]: coding };
      const compressed = compress(message);
      for (const [, bytes] of malformed) {
        await expectCode(variant, wrapped(variant, compress(bytes), 1), Code.InvalidArgument, headers);
      }
      await expectCode(variant, wrapped(variant, message, 1), Code.InvalidArgument, headers);
      await expectCode(variant, wrapped(variant, compressed.subarray(0, -6), 1), Code.InvalidArgument, headers);
      await expectCode(
        variant,
        wrapped(variant, Buffer.from([...compressed.subarray(0, 3), 0xff, 0xff, 0xff]), 1),
        Code.InvalidArgument,
        headers,
      );
      await expectCode(
        variant,
        wrapped(variant, compress(Buffer.alloc(bytesMax + 1, 0x20)), 1),
        Code.ResourceExhausted,
        headers,
      );
    });

    test("an unknown compression", async () => {
      await expectCode(variant, wrapped(variant, message), Code.Unimplemented, { [variant.encodingName]: "rot13" });
    });

    if (!variant.enveloped) return;

    test("half an envelope, none, and two", async () => {
      const whole = wrapped(variant, message);
      await expectCode(variant, whole.subarray(0, -1), Code.InvalidArgument);
      await expectCode(variant, whole.subarray(0, 3), Code.InvalidArgument);
      await expectCode(variant, Buffer.alloc(0), Code.Unimplemented);
      await expectCode(variant, Buffer.concat([whole, whole]), Code.Unimplemented);
    });
  },
);

test.each(["connect", "grpc-web", "grpc"])("a health check of %s that is no message", async (protocol) => {
  const variant = rpcVariants.find((each) => each.protocol === protocol && !each.json);
  if (variant === undefined) throw new Error(`no form of ${protocol}`);
  const outcome = await sendBytes(
    server.port,
    variant,
    "/grpc.health.v1.Health/Check",
    wrapped(variant, noMessage),
    {},
  );
  expect(outcome).toMatchObject({ httpStatus: protocol === "connect" ? 400 : 200, code: Code.InvalidArgument });
});

describe("an error repeats at most 200 characters of its input", () => {
  // Characters that take nine bytes each in a grpc-message, where that can be.
  const long = "é".repeat(400);
  const path = `/${"a".repeat(20_000)}`;
  const json = { "content-type": "application/json" };
  const health = "/grpc.health.v1.Health/Check";
  const post = (url: string, body: string, headers: Record<string, string>): Promise<Reply> =>
    ask(url, { method: "POST", body, headers });

  test.each<[string, () => Promise<Reply>]>([
    ["an unknown path", () => ask(path)],
    ["an unknown method over Connect", () => post(path, "{}", { ...json, "connect-protocol-version": "1" })],
    ["an unknown method over gRPC-Web", () => post(path, "", { "content-type": "application/grpc-web+proto" })],
    ["an unknown service", () => post(health, JSON.stringify({ service: long }), json)],
    [
      "an unknown service over gRPC-Web",
      () => post(health, checkOf(long), { "content-type": "application/grpc-web+json" }),
    ],
    ["an unknown field", () => post(`${service}/GetMarket`, JSON.stringify({ [long]: 1 }), json)],
    [
      "an unknown compression",
      () => post(`${service}/GetMarket`, "", { ...json, "content-encoding": "z".repeat(9_000) }),
    ],
    [
      "a malformed deadline",
      () => post(`${service}/GetMarket`, "", { ...json, "connect-timeout-ms": "9".repeat(9_000) }),
    ],
    ["an unknown parameter", () => ask(`/api/v2/market/m?${"x".repeat(9_000)}=1`)],
  ])("%s", async (_name, respond) => {
    const { status, text } = await respond();
    expect([200, 400, 404, 501]).toContain(status);
    const repetition = /(.)\1{60,}/u.exec(text)?.[0] ?? "";
    expect(repetition.length).toBeGreaterThan(60);
    expect([...text].length).toBeLessThan(1_500);
    expect(repetition.length).toBeLessThanOrEqual(200);
  });

  function checkOf(name: string): string {
    return envelope(0, Buffer.from(JSON.stringify({ service: name }))).toString("latin1");
  }
});

interface Reply {
  readonly status: number;
  /** The body, and `grpc-message`. */
  readonly text: string;
}

async function ask(path: string, init: RequestInit = {}): Promise<Reply> {
  const body =
    typeof init.body === "string" && init.body.startsWith("\0") ? Buffer.from(init.body, "latin1") : init.body;
  const response = await fetch(`http://127.0.0.1:${server.port}${path}`, { ...init, body: body ?? null });
  const text = decodeURIComponent(response.headers.get("grpc-message") ?? "") + (await response.text());
  return { status: response.status, text: decodeURIComponent(text.replaceAll(/%(?![0-9A-F]{2})/g, "%25")) };
}
