import { brotliCompressSync, gzipSync } from "node:zlib";
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { GetMarketRequestSchema } from "../../../gen/datanode/api/v2/trading_data_pb.js";
import { envelope } from "../../../src/transport/call/framing.js";
import { type RpcForm, rpcForms, sendBytes } from "../../support/rpc-bytes.js";
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
  form: RpcForm,
  body: Buffer,
  code: Code,
  headers: Record<string, string> = {},
): Promise<void> {
  const method = form.protocol === "connect-stream" ? "ObserveMarketsDepthUpdates" : "GetMarket";
  const outcome = await sendBytes(server.port, form, `${service}/${method}`, body, headers);
  const httpStatus = form.protocol === "connect" || form.protocol === "connect-get" ? httpStatuses[code] : 200;
  expect(outcome).toMatchObject({ httpStatus, code });
}

const wrapped = (form: RpcForm, message: Buffer, flags = 0): Buffer =>
  form.enveloped ? envelope(flags, message) : message;

describe.each(rpcForms.map((form) => ({ name: `${form.protocol} ${form.contentType}`, form })))("$name", ({ form }) => {
  const message = Buffer.from(
    form.json ? toJsonString(GetMarketRequestSchema, request) : toBinary(GetMarketRequestSchema, request),
  );
  const malformed: readonly (readonly [string, Buffer])[] = form.json
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
    await expectCode(form, wrapped(form, bytes), Code.InvalidArgument);
  });

  test.each([
    ["gzip", gzipSync],
    ["br", brotliCompressSync],
  ] as const)("compressed with %s", async (coding, compress) => {
    const headers = { [form.encodingName]: coding };
    const compressed = compress(message);
    for (const [, bytes] of malformed) {
      await expectCode(form, wrapped(form, compress(bytes), 1), Code.InvalidArgument, headers);
    }
    await expectCode(form, wrapped(form, message, 1), Code.InvalidArgument, headers);
    await expectCode(form, wrapped(form, compressed.subarray(0, -6), 1), Code.InvalidArgument, headers);
    await expectCode(
      form,
      wrapped(form, Buffer.from([...compressed.subarray(0, 3), 0xff, 0xff, 0xff]), 1),
      Code.InvalidArgument,
      headers,
    );
    await expectCode(
      form,
      wrapped(form, compress(Buffer.alloc(bytesMax + 1, 0x20)), 1),
      Code.ResourceExhausted,
      headers,
    );
  });

  test("an unknown compression", async () => {
    await expectCode(form, wrapped(form, message), Code.Unimplemented, { [form.encodingName]: "rot13" });
  });

  if (!form.enveloped) return;

  test("half an envelope, none, and two", async () => {
    const whole = wrapped(form, message);
    await expectCode(form, whole.subarray(0, -1), Code.InvalidArgument);
    await expectCode(form, whole.subarray(0, 3), Code.InvalidArgument);
    await expectCode(form, Buffer.alloc(0), Code.Unimplemented);
    await expectCode(form, Buffer.concat([whole, whole]), Code.Unimplemented);
  });
});

test.each(["connect", "grpc-web", "grpc"])("a health check of %s that is no message", async (protocol) => {
  const form = rpcForms.find((each) => each.protocol === protocol && !each.json);
  if (form === undefined) throw new Error(`no form of ${protocol}`);
  const outcome = await sendBytes(server.port, form, "/grpc.health.v1.Health/Check", wrapped(form, noMessage), {});
  expect(outcome).toMatchObject({ httpStatus: protocol === "connect" ? 400 : 200, code: Code.InvalidArgument });
});
