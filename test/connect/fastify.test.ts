import { fileURLToPath } from "node:url";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { smallNetwork } from "../e2e/small-network.js";
import { newDatabaseUrl } from "../support/database.js";
import { loadRecording } from "../support/load-recording.js";
import { MountedProcess } from "./mounted-process.js";

/* examples/connect/fastify.ts, with the packed package and its types. */

const example = fileURLToPath(new URL("../../examples/connect/fastify.ts", import.meta.url));
const installMaxMs = 240_000;
const token = "a-token-of-tests";
let server: MountedProcess;

beforeAll(async () => {
  const { url } = newDatabaseUrl();
  await loadRecording(url, smallNetwork().bytes());
  server = await MountedProcess.start(example, [], { MARKETD_DATABASE_URL: url, API_TOKEN: token, PORT: "0" });
}, installMaxMs);

afterAll(() => server?.stop());

function clientWith(headers: Record<string, string>) {
  const fetchWith: typeof fetch = (input, init) =>
    fetch(input, { ...init, headers: { ...Object.fromEntries(new Headers(init?.headers)), ...headers } });
  const transport = createConnectTransport({ baseUrl: server.line, fetch: fetchWith });
  return createClient(TradingDataService, transport);
}

test("a caller with the token is served", async () => {
  const client = clientWith({ authorization: `Bearer ${token}` });
  expect((await client.getMarket({ marketId: "busy" })).market?.id).toBe("busy");
  for await (const { update } of client.observeMarketsDepthUpdates({ marketIds: ["busy"] })) {
    expect(update[0]?.buy).toHaveLength(3);
    break;
  }
});

test("a caller without it is not, whatever the method", async () => {
  const client = clientWith({ authorization: "Bearer another" });
  const unauthenticated = expect.objectContaining({ code: Code.Unauthenticated });
  await expect(client.getMarket({ marketId: "busy" })).rejects.toThrow(ConnectError);
  await expect(client.getMarket({ marketId: "busy" })).rejects.toEqual(unauthenticated);
  const stream = client.observeMarketsDepthUpdates({})[Symbol.asyncIterator]();
  await expect(stream.next()).rejects.toEqual(unauthenticated);
});
