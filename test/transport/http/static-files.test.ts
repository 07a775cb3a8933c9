import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { explorerFiles } from "../../../src/commands/explorer-files.js";
import { contentSecurityPolicy } from "../../../src/transport/http/static-files.js";
import type { RunningServer } from "../../../src/transport/server.js";
import { serveFake } from "../serve-fake.js";

describe("the explorer's files", () => {
  let server: RunningServer;
  let prefixed: RunningServer;

  beforeAll(async () => {
    server = (await serveFake({ files: explorerFiles() })).server;
    prefixed = (await serveFake({ files: explorerFiles(), basePath: "/data" })).server;
  });

  afterAll(async () => {
    await server.close();
    await prefixed.close();
  });

  it("are served with their types, and nothing of other origins is allowed", async () => {
    const page = await fetch(`${server.url}/`);
    expect(page.status).toBe(200);
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(page.headers.get("content-security-policy")).toBe(contentSecurityPolicy);
    expect(page.headers.get("x-content-type-options")).toBe("nosniff");
    const html = await page.text();
    const links = [...html.matchAll(/(?:href|src)="(explorer\/[^"]+)"/g)].map(([, link = ""]) => link);
    expect(links.length).toBeGreaterThan(2);
    for (const link of links) expect((await fetch(new URL(link, `${server.url}/`))).status).toBe(200);
  });

  it("hold every module that they import", async () => {
    for (const [path, { bytes }] of explorerFiles()) {
      const imports = [
        ...Buffer.from(bytes)
          .toString()
          .matchAll(/from "\.\/([^"]+)"/g),
      ].map(([, name = ""]) => name);
      if (!path.endsWith(".js")) continue;
      for (const name of imports) expect(explorerFiles().has(`/explorer/${name}`), `${name} for ${path}`).toBe(true);
    }
  });

  it("have no script or style in the page, which the policy forbids", () => {
    const html = Buffer.from(explorerFiles().get("/")?.bytes ?? []).toString();
    expect(html).not.toMatch(/<style|style="|<script(?![^>]*src=)| on[a-z]+="/);
  });

  it("cost a client that knows them a 304", async () => {
    const first = await fetch(`${server.url}/explorer/explorer.js`);
    const etag = first.headers.get("etag") ?? "";
    await first.text();
    const again = await fetch(`${server.url}/explorer/explorer.js`, { headers: { "if-none-match": etag } });
    expect([again.status, await again.text()]).toEqual([304, ""]);
  });

  it("answer HEAD without a body, and other methods as any unknown path", async () => {
    const head = await fetch(`${server.url}/`, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    expect(Number(head.headers.get("content-length"))).toBeGreaterThan(1_000);
    expect((await fetch(`${server.url}/`, { method: "POST" })).status).toBe(404);
    expect((await fetch(`${server.url}/explorer/..%2fpackage.json`)).status).toBe(404);
  });

  it("stand behind the base path, and not at the root", async () => {
    expect((await fetch(`${prefixed.url}/data/`)).status).toBe(200);
    expect((await fetch(`${prefixed.url}/data/explorer/explorer.css`)).status).toBe(200);
    expect((await fetch(`${prefixed.url}/`)).status).toBe(404);
  });
});
