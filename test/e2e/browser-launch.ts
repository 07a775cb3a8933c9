import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type Browser, chromium } from "playwright-core";
import { rolldown } from "rolldown";

/** Starts Chromium without a window, and without anything that talks to others. */
export function launchChromium(executablePath: string): Promise<Browser> {
  return chromium.launch({
    executablePath,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

/** A page that runs a script of ours. */
export interface ScriptPage {
  readonly url: string;
  close(): void;
}

/** Bundles a script for browsers, and serves a page with it on a free port: another origin than the service's. */
export async function serveScript(input: string): Promise<ScriptPage> {
  const bundle = await rolldown({ input, platform: "browser", resolve: { extensionAlias: { ".js": [".ts", ".js"] } } });
  const { output } = await bundle.generate({ format: "esm", codeSplitting: false });
  await bundle.close();
  const [{ code }] = output;
  const server = createServer((request, response) => {
    const isScript = request.url === "/script.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(
      isScript ? code : '<!doctype html><title>reader</title><script type="module" src="/script.js"></script>',
    );
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
