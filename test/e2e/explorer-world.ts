import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AxeBuilder } from "@axe-core/playwright";
import type { Browser, Page } from "playwright-core";
import { Network, type NetworkOptions } from "../../src/simulator/network.js";
import { dropDatabase } from "../../src/store/migrate.js";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { partnerProgram } from "../support/partners.js";
import { launchChromium } from "./browser-launch.js";
import { runMarketdUntil, ServiceProcess } from "./service-process.js";

/** Path of the browser; undefined: this machine has none. */
export const chromium = partnerProgram("browser");

/** For what arrives after a poll or a message. */
export const patience = { timeout: 20_000, interval: 50 };

/** Of the window, in pixels. */
export const widths = [1_440, 768, 390];

/** Elements that leave their card, cells whose text leaves them, and cards that have to be scrolled. */
export const misplaced = `[...document.querySelectorAll("main *")].flatMap((element) => {
  if (element.closest("svg, .visually-hidden, thead, #market-choice") !== null) return [];
  const told = (what) => [what + " " + element.outerHTML.slice(0, 90)];
  const place = (element.closest("td, th, dd") ?? element.closest(".card, main")).getBoundingClientRect();
  const { left, right, width } = element.getBoundingClientRect();
  if (element.matches(".scroll") && element.scrollWidth > element.clientWidth) return told("scrolls");
  if (width > 0 && (left < place.left - 1 || right > place.right + 1)) return told("leaves its place");
  return width > 0 && right > innerWidth + 1 ? told("leaves the window") : [];
})`;

/**
 * What axe finds wrong with a page in the light and in the dark scheme. They differ in colours alone, so the second is
 * held only to the rules about those.
 */
export async function axeFaults(page: Page): Promise<string[]> {
  const faults: string[] = [];
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    const axe = new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ["violations"] });
    const { violations } = await (colorScheme === "light" ? axe : axe.withTags("cat.color")).analyze();
    faults.push(...violations.map(({ id, nodes }) => `${colorScheme} ${id}: ${nodes[0]?.html}`));
  }
  return faults;
}

/** What is wrong with a page: errors of its scripts, messages on its console, requests to other hosts. */
export interface PageProblems {
  readonly page: Page;
  readonly problems: string[];
}

/** A service over a simulated network, and a browser to look at its explorer. */
export class ExplorerWorld {
  readonly directory = mkdtempSync(join(tmpdir(), "marketd-explorer-"));
  readonly #databaseUrl = newDatabaseUrl().url;
  #service: ServiceProcess | undefined;
  #browser: Browser | undefined;
  #ownsBrowser = true;

  readonly #network: Network | undefined;

  /** Without options there is no network: the recordings are the caller's. */
  constructor(options?: NetworkOptions) {
    this.#network = options && new Network(options);
  }

  get network(): Network {
    if (this.#network === undefined) throw new Error("this world has no simulated network");
    return this.#network;
  }

  /** Loads `blocks` blocks and opens service and browser. */
  async start(blocks: number): Promise<void> {
    await this.load(blocks);
    await this.serve();
  }

  /** Opens the service, and a browser unless one is given, which is another's to close. */
  async serve(browser?: Browser): Promise<void> {
    this.#service = new ServiceProcess(this.#databaseUrl, await freePort());
    this.#ownsBrowser = browser === undefined;
    [this.#browser] = await Promise.all([browser ?? launchChromium(chromium ?? ""), this.#service.start()]);
  }

  async stop(): Promise<void> {
    if (this.#ownsBrowser) await this.#browser?.close();
    await this.#service?.kill();
    rmSync(this.directory, { recursive: true, force: true });
  }

  get service(): ServiceProcess {
    if (this.#service === undefined) throw new Error("the service is not started");
    return this.#service;
  }

  get browser(): Browser {
    if (this.#browser === undefined) throw new Error("the browser is not started");
    return this.#browser;
  }

  /** Makes more blocks and loads them. */
  async load(blocks: number): Promise<void> {
    await this.replay(this.record(blocks));
  }

  /** Makes more blocks. @returns their recording */
  record(blocks: number): Uint8Array {
    return Buffer.concat(Array.from({ length: blocks }, () => this.network.nextBlock()));
  }

  /** Loads a recording, so many blocks a second where `pace` is given. */
  replay(recording: Uint8Array, pace?: number): Promise<void> {
    return loadRecording(this.#databaseUrl, recording, pace);
  }

  /** The same of a file, in a process of its own, until `signal` ends it. */
  async replayFile(file: string, pace: number, signal: AbortSignal): Promise<void> {
    await runMarketdUntil(signal, "load", "--database-url", this.#databaseUrl, "--pace", String(pace), file);
  }

  /** Puts a recording in the place of everything that is loaded. */
  async replace(recording: Uint8Array): Promise<void> {
    await dropDatabase(this.#databaseUrl);
    await this.replay(recording);
  }

  async getJson<T>(path: string): Promise<T> {
    const response = await fetch(`${this.service.url}${path}`);
    if (!response.ok) throw new Error(`${path} answers ${response.status}`);
    return (await response.json()) as T;
  }

  /** Opens a page of the explorer, by default on a desktop's screen. */
  async open(fragment: string, viewport = { width: 1440, height: 900 }): Promise<PageProblems> {
    const context = await this.browser.newContext({ viewport, acceptDownloads: true });
    const page = await context.newPage();
    const problems: string[] = [];
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("console", (message) => {
      // Error responses and a service that is gone, which tests cause, are told on the console too.
      const isCaused = /^Failed to load resource|^WebSocket connection to .* failed/.test(message.text());
      if (message.type() === "error" && !isCaused) problems.push(message.text());
    });
    page.on("request", (request) => {
      const url = new URL(request.url());
      const isOwn = url.origin === this.service.url || url.protocol === "blob:";
      if (!isOwn) problems.push(`a request to ${url.origin}`);
    });
    await page.goto(`${this.service.url}/${fragment}`);
    return { page, problems };
  }
}
