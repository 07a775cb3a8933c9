import { once } from "node:events";
import { get, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { explorerFiles, referenceFiles } from "../../../src/commands/web-files.js";
import { contentSecurityPolicy } from "../../../src/transport/http/static-files.js";
import type { ListeningServer } from "../../support/listening.js";
import { serveFake } from "../serve-fake.js";

interface RawResponse {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** GETs a file as it is on the wire. */
async function rawGet(url: string, acceptEncoding: string, ifNoneMatch?: string): Promise<RawResponse> {
  const known = ifNoneMatch === undefined ? {} : { "if-none-match": ifNoneMatch };
  const request = get(url, { headers: { "accept-encoding": acceptEncoding, ...known } });
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  return { status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) };
}

describe("the files of the pages", () => {
  const files = new Map([...explorerFiles(), ...referenceFiles("")]);
  let server: ListeningServer;
  let prefixed: ListeningServer;

  beforeAll(async () => {
    server = (await serveFake({ files })).server;
    prefixed = (await serveFake({ files, basePath: "/data" })).server;
  });

  afterAll(async () => {
    await server.close();
    await prefixed.close();
  });

  it.each(["/", "/docs"])("are served with their types, and nothing of other origins is allowed: %s", async (path) => {
    const page = await fetch(`${server.url}${path}`);
    expect(page.status).toBe(200);
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(page.headers.get("content-security-policy")).toBe(contentSecurityPolicy);
    expect(page.headers.get("x-content-type-options")).toBe("nosniff");
    const html = await page.text();
    const links = [...html.matchAll(/(?:href|src)="((?:explorer|docs)\/[^"]+)"/g)].map(([, link = ""]) => link);
    expect(links.length).toBeGreaterThan(2);
    for (const link of links) expect((await fetch(new URL(link, page.url))).status).toBe(200);
  });

  it.each(["POST", "PUT", "DELETE"])("are for reading: %s is not allowed", async (method) => {
    for (const path of ["/", "/docs", "/openapi.json"]) {
      for (const url of [`${server.url}${path}`, `${prefixed.url}/data${path}`]) {
        const refused = await fetch(url, { method });
        expect([url, refused.status, refused.headers.get("allow")]).toEqual([url, 405, "GET, HEAD, OPTIONS"]);
        expect(await refused.json()).toMatchObject({ code: 12, details: [{ reason: "METHOD_NOT_ALLOWED" }] });
      }
    }
  });

  it("hold every module that the explorer imports", async () => {
    const scripts = [...explorerFiles()].filter(([path]) => path.endsWith(".js"));
    expect(scripts.length).toBeGreaterThan(0);
    for (const [path, { bytes }] of scripts) {
      const imports = [
        ...Buffer.from(bytes)
          .toString()
          .matchAll(/\b(?:from|import)\s*\(?["'`]([^"'`]+)["'`]/g),
      ].map(([, name = ""]) => name);
      for (const name of imports) {
        expect(explorerFiles().has(`/explorer/${name.replace("./", "")}`), `${name} for ${path}`).toBe(true);
      }
    }
  });

  it("are small: those of the explorer compressed at most 150 KB in all", async () => {
    let bytes = 0;
    for (const path of explorerFiles().keys()) {
      const response = await rawGet(`${server.url}${path}`, "gzip");
      expect([path, response.headers["content-encoding"]]).toEqual([path, /svg|\/$/.test(path) ? undefined : "gzip"]);
      bytes += response.body.length;
    }
    expect(bytes).toBeGreaterThan(20_000);
    expect(bytes).toBeLessThan(150_000);
  });

  it("are the same in every encoding, under an ETag of its own", async () => {
    const path = "/explorer/explorer.js";
    const responses = await Promise.all(
      ["br", "gzip", "identity"].map((coding) => rawGet(`${server.url}${path}`, coding)),
    );
    const [br, gzip, plain] = responses.map(({ body }) => body);
    expect(brotliDecompressSync(br ?? "")).toEqual(plain);
    expect(gunzipSync(gzip ?? "")).toEqual(plain);
    expect(new Set(responses.map(({ headers }) => headers.etag)).size).toBe(3);
    expect(responses.map(({ headers }) => headers.vary)).toEqual(Array(3).fill("accept-encoding"));
    const known = await rawGet(`${server.url}${path}`, "gzip", responses[1]?.headers.etag);
    expect([known.status, known.body.length]).toEqual([304, 0]);
  });

  it("run under a policy without inline code, eval, or other hosts", () => {
    expect(contentSecurityPolicy).toContain("default-src 'none'");
    expect(contentSecurityPolicy).not.toMatch(/unsafe-|\*|https?:|data:|blob:/);
  });

  it.each(["/", "/docs"])("have no script or style in the page, which the policy forbids: %s", (path) => {
    const html = Buffer.from(files.get(path)?.bytes ?? []).toString();
    expect(html).not.toMatch(/<style|style="|<script(?![^>]*src=)| on[a-z]+="/);
  });

  it("are compressed beside the event loop where they are large, and once for all who ask at the same time", async () => {
    const path = "/docs/swagger-ui-bundle.js";
    const responses = await Promise.all([1, 2, 3].map(() => rawGet(`${server.url}${path}`, "br")));
    const bytes = files.get(path)?.bytes ?? new Uint8Array();
    expect(bytes.length).toBeGreaterThan(1_000_000);
    expect(responses.map(({ body }) => brotliDecompressSync(body).equals(bytes))).toEqual([true, true, true]);
  });

  it("cost a client that knows them a 304", async () => {
    const first = await fetch(`${server.url}/explorer/explorer.js`);
    const etag = first.headers.get("etag") ?? "";
    await first.text();
    const again = await fetch(`${server.url}/explorer/explorer.js`, { headers: { "if-none-match": etag } });
    expect([again.status, await again.text()]).toEqual([304, ""]);
  });

  it("answer HEAD without a body, and nothing beside them", async () => {
    const head = await fetch(`${server.url}/`, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    expect(Number(head.headers.get("content-length"))).toBe(explorerFiles().get("/")?.bytes.length);
    expect((await fetch(`${server.url}/explorer/..%2fpackage.json`)).status).toBe(404);
  });

  it("stand behind the base path, and not at the root", async () => {
    expect((await fetch(`${prefixed.url}/data/`)).status).toBe(200);
    expect((await fetch(`${prefixed.url}/data/explorer/explorer.css`)).status).toBe(200);
    expect((await fetch(`${prefixed.url}/`)).status).toBe(404);
  });
});
