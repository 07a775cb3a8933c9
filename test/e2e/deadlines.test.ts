import { gzipSync } from "node:zlib";
import { type DescMethod, fromJson, type JsonValue, toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { envelope } from "../../src/transport/call/framing.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { type RpcVariant, rpcVariants, sendBytes } from "../support/rpc-bytes.js";
import { tries } from "../support/tries.js";
import { ServiceProcess } from "./service-process.js";
import { smallNetwork } from "./small-network.js";

/*
 * Deadlines that have passed before the work begins, or pass while it does, in every form of a call of every method:
 * each call is answered, and the process goes on.
 */

const marketId = "busy";
const requests: readonly (readonly [DescMethod, JsonValue])[] = [
  [TradingDataService.method.getMarket, { marketId }],
  [TradingDataService.method.getLatestMarketDepth, { marketId }],
  [TradingDataService.method.getLatestMarketData, { marketId }],
  [TradingDataService.method.listLatestMarketData, {}],
  [TradingDataService.method.listLedgerEntries, {}],
  [TradingDataService.method.listERC20MultiSigSignerRemovedBundles, {}],
  [TradingDataService.method.observeMarketsDepthUpdates, { marketIds: [marketId] }],
  [TradingDataService.method.exportLedgerEntries, { partyId: "alice", assetId: "usd" }],
];

const connectTimeouts = ["0", "1", "2", "3"];
const grpcTimeouts = ["0n", "1n", "1u", "900u", "1m", "2m", "3m"];
const repetitions = tries(5);

/** A statement that is given up costs its connection, and on a busy machine the next may come too late. */
const honestCodes = [0, Code.DeadlineExceeded, Code.Unavailable];

/** Whether the form takes calls of the method. */
function serves(variant: RpcVariant, method: DescMethod): boolean {
  if (variant.protocol === "connect-stream") return method.methodKind === "server_streaming";
  return method.methodKind === "unary" || variant.protocol === "grpc" || variant.protocol === "grpc-web";
}

describe("a deadline of hardly any time", () => {
  let port: number;
  let service: ServiceProcess;

  beforeAll(async () => {
    const databaseUrl = newDatabaseUrl().url;
    await loadRecording(databaseUrl, smallNetwork().bytes());
    port = await freePort();
    service = new ServiceProcess(databaseUrl, port);
    await service.start();
  });

  afterAll(async () => {
    await service.kill();
  });

  const cases = rpcVariants.flatMap((variant) =>
    [undefined, "gzip"].map((coding) => ({ ...variant, variant, coding })),
  );
  test.each(cases)("$protocol, $contentType, compressed: $coding", async ({ variant, coding }) => {
    const timeouts = variant.protocol.startsWith("connect") ? connectTimeouts : grpcTimeouts;
    const calls = requests
      .filter(([method]) => serves(variant, method))
      .flatMap(([method, request]) =>
        timeouts.map((timeout) => ({ method, timeout, body: bodyOf(variant, method, request, coding) })),
      );
    for (let n = 0; n < repetitions; n++) {
      const outcomes = await Promise.all(
        calls.map(({ method, timeout, body }) => {
          const path = `/${method.parent.typeName}/${method.name}`;
          const headers = {
            [variant.timeoutName]: timeout,
            ...(coding === undefined ? {} : { [variant.encodingName]: coding }),
          };
          return sendBytes(port, variant, path, body, headers);
        }),
      );
      for (const { code } of outcomes) expect(honestCodes).toContain(code);
    }
    expect((await fetch(`${service.url}/readyz`)).status).toBe(200);
    expect(service.printed).not.toContain("nhandled");
  });
});

function bodyOf(variant: RpcVariant, method: DescMethod, request: JsonValue, coding: string | undefined): Buffer {
  const plain = variant.json ? JSON.stringify(request) : toBinary(method.input, fromJson(method.input, request));
  const message = coding === undefined ? Buffer.from(plain) : gzipSync(plain);
  return variant.enveloped ? envelope(coding === undefined ? 0 : 1, message) : message;
}
