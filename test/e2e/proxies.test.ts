import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { ClientRequest, IncomingMessage } from "node:http";
import { request } from "node:https";
import { setTimeout as delay } from "node:timers/promises";
import tls from "node:tls";
import { fileURLToPath } from "node:url";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { liveLimits } from "../../src/live/limits.js";
import { selfSigned } from "../support/certificate.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { operationsOn, outcomesOf } from "../support/operations.js";
import { partnerProgram } from "../support/partners.js";
import { getUrl, type Outcome, openClients, type ProtocolClient } from "../support/protocol-clients.js";
import { type ProxyName, type ProxyProcess, startProxy } from "./proxy-process.js";
import { ServiceProcess } from "./service-process.js";
import { smallNetwork } from "./small-network.js";

/* The configurations of docs/proxies.md, as they stand there, in the real proxies: every protocol goes through. */

const page = readFileSync(fileURLToPath(new URL("../../docs/proxies.md", import.meta.url)), "utf8");
const proxies: readonly ProxyName[] = ["nginx", "caddy", "haproxy"];
const operations = operationsOn({ market: "busy", other: "a/b +%", party: "alice", asset: "usd" });
const streamUrl = getUrl("observeMarketsDepthUpdates", { marketIds: ["busy"] });
const heartbeatMs = 200;
const streamsPerAddressMax = 20;
/** The first message, and heartbeats that a proxy passes on one by one. */
const messages = 4;
const logDelayMs = 300;
const patience = { timeout: 10_000 };
const certificate = selfSigned();

/**
 * What a client took. Of about 5,000 streams after others that were cancelled, Caddy 2.6 ends one without a status, and
 * logs that it closed its own connection to the service: such a one is asked for again.
 */
async function wholly(proxy: ProxyProcess, take: () => Promise<Outcome[]>): Promise<Outcome[]> {
  for (;;) {
    const before = proxy.ownCloses();
    const taken = await take();
    const isCut = taken.some((each) => "error" in each && /^missing (trailer|EndStream)/.test(each.error.message));
    // What the proxy prints may come later than the response.
    if (isCut) await delay(logDelayMs);
    if (!isCut || proxy.ownCloses() === before) return taken;
  }
}

describe.skipIf(certificate === undefined)("behind a proxy", () => {
  let service: ServiceProcess;

  beforeAll(async () => {
    // The certificate signs itself, and `fetch` takes no other authorities than those of the process.
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    const { url: databaseUrl } = newDatabaseUrl();
    await loadRecording(databaseUrl, smallNetwork().bytes());
    service = new ServiceProcess(
      ...[databaseUrl, await freePort(), "--heartbeat-ms", String(heartbeatMs), "--trusted-proxies", "127.0.0.1"],
      ...["--streams-per-address-max", String(streamsPerAddressMax)],
    );
    await service.start();
  });

  afterAll(async () => {
    await service?.kill();
  });

  describe.each(proxies)("%s", (name) => {
    const configuration = new RegExp(`^\`\`\`${name}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(page)?.[1] ?? "";
    const program = partnerProgram(name);
    const through = it.skipIf(program === undefined);
    let proxy: ProxyProcess;
    let clients: readonly ProtocolClient[] = [];

    beforeAll(async () => {
      if (program === undefined || certificate === undefined) return;
      proxy = await startProxy({ name, program, configuration, serviceUrl: service.url, certificate });
      clients = openClients(proxy.url, certificate.certificate);
    });

    afterAll(async () => {
      for (const client of clients) client.close();
      await proxy?.stop();
    });

    through("passes every operation on, over every protocol", async () => {
      const direct = openClients(service.url);
      for (const [index, client] of clients.entries()) {
        const straight = direct[index];
        if (straight === undefined) throw new Error(`${client.name} is missing`);
        for (const operation of operations) {
          const expected = await outcomesOf(straight, operation);
          const outcomes = await wholly(proxy, () => outcomesOf(client, operation));
          expect(outcomes, `${client.name} ${JSON.stringify(operation)}`).toEqual(expected);
        }
      }
      for (const client of direct) client.close();
    });

    through("serves a client of HTTP/1.0 that names no host", async () => {
      const port = Number(new URL(proxy.url).port);
      const socket = tls.connect({ port, host: "127.0.0.1", servername: "localhost", rejectUnauthorized: false });
      socket.write("GET /readyz HTTP/1.0\r\n\r\n");
      let text = "";
      for await (const chunk of socket) text += String(chunk);
      expect(text).toMatch(/^HTTP\/1\.[01] 200 /);
    });

    through("passes each message of a stream on at once, over every protocol", async () => {
      for (const client of clients) {
        const observe = () => client.stream("observeMarketsDepthUpdates", { marketIds: ["busy"] }, messages);
        const taken = await wholly(proxy, observe);
        expect(taken.slice(1), client.name).toEqual(new Array(messages - 1).fill({ reply: { update: [] } }));
      }
      expect(await eventsOf(proxy.url + streamUrl, messages)).toHaveLength(messages);
      const socket = new WebSocket(proxy.url.replace("http", "ws") + streamUrl);
      const texts: string[] = [];
      socket.on("message", (data) => texts.push(String(data)));
      await expect.poll(() => texts.length, patience).toBeGreaterThanOrEqual(messages);
      expect(texts[1]).toBe('{"result":{"update":[]}}');
      socket.close();
      await once(socket, "close");
    });

    it("lets streams be idle for longer than they are", () => {
      const timeouts = [...configuration.matchAll(/(?:read_timeout|timeout (?:client|server|tunnel)) +([0-9]+)s/g)];
      for (const [text, seconds] of timeouts)
        expect(Number(seconds) * 1000, text).toBeGreaterThan(liveLimits.heartbeatMs);
      // Caddy has none.
      expect(timeouts.length).toBe({ nginx: 2, caddy: 0, haproxy: 3 }[name]);
    });

    through("tells a browser why a WebSocket is refused", async () => {
      const socket = new WebSocket(`${proxy.url.replace("http", "ws")}${streamUrl}&marketIds=nowhere`);
      const [data] = await once(socket, "message");
      const [code] = await once(socket, "close");
      expect([code, JSON.parse(String(data))]).toMatchObject([1008, { error: { code: 5 } }]);
    });

    through("passes the raw CSV on, and conditional and HEAD requests", async () => {
      const path = getUrl("exportLedgerEntries", { partyId: "alice", assetId: "usd" });
      const expected = await (await fetch(`${service.url}${path}&alt=media`)).text();
      const { text, trailers } = await download(`${proxy.url}${path}&alt=media`);
      expect(text).toBe(expected);
      const sha256 = createHash("sha256").update(expected).digest("hex");
      expect(trailers["export-sha256"]).toBe(name === "nginx" ? undefined : sha256);
      const url = proxy.url + getUrl("getMarket", { marketId: "a/b +%" });
      const etag = (await fetch(url)).headers.get("etag") ?? "";
      expect((await fetch(url, { headers: { "if-none-match": etag } })).status).toBe(304);
      const head = await fetch(url, { method: "HEAD" });
      expect([head.status, head.headers.get("x-block-height")]).toEqual([200, "4"]);
    });

    through("tells the client's address, over every protocol", async () => {
      const calls: ClientRequest[] = [];
      const open = async (localAddress: string): Promise<number> => {
        const call = request(proxy.url + streamUrl, { localAddress, agent: false }).end();
        calls.push(call);
        const [response] = (await once(call, "response")) as [IncomingMessage];
        call.on("error", () => {});
        response.on("error", () => {}).resume();
        return response.statusCode ?? 0;
      };
      // A proxy may keep a stream of the tests before for a while.
      const before = await openStreams(service.url);
      let status = await open("127.0.0.1");
      expect(status).toBe(200);
      while (status === 200) status = await open("127.0.0.1");
      expect(status).toBe(429);
      expect(calls.length).toBeLessThanOrEqual(streamsPerAddressMax + 1);
      expect(await open("127.0.0.2")).toBe(200);
      const nodeOptions = { localAddress: "127.0.0.2", rejectUnauthorized: false };
      const grpc = createClient(TradingDataService, createGrpcTransport({ baseUrl: proxy.url, nodeOptions }));
      const gone = new AbortController();
      for await (const { update } of grpc.observeMarketsDepthUpdates({}, { signal: gone.signal })) {
        expect(update.length).toBeGreaterThan(0);
        break;
      }
      for (const client of clients) {
        const [outcome] = await client.stream("observeMarketsDepthUpdates", {}, 1);
        expect(outcome, client.name).toMatchObject({ error: { code: 8, reason: "TOO_MANY_STREAMS_OF_CLIENT" } });
      }
      // Connect's client does not end a stream that is left by `break`.
      gone.abort();
      for (const call of calls) call.destroy();
      await expect.poll(() => openStreams(service.url), patience).toBeLessThanOrEqual(before);
    });
  });
});

async function openStreams(url: string): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  const counts = [...metrics.matchAll(/^marketd_streams_open\{.*\} ([0-9]+)$/gm)];
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}

/** The first server-sent events of a stream. */
async function eventsOf(url: string, count: number): Promise<string[]> {
  const response = await fetch(url, { headers: { accept: "text/event-stream" } });
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true });
    if (text.split("\n\n").length > count) break;
  }
  return text.split("\n\n").slice(0, count);
}

/** A body with what follows it, which `fetch` does not tell. */
async function download(url: string) {
  const [response] = (await once(request(url, { agent: false }).end(), "response")) as [IncomingMessage];
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) text += chunk;
  return { text, trailers: response.trailers };
}
