import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newDatabaseUrl } from "../support/database.js";
import { freePort } from "../support/free-port.js";
import { loadRecording } from "../support/load-recording.js";
import { level, VenueRecording } from "../support/venue-recording.js";
import { launchChromium } from "./browser-launch.js";
import { chromium, patience } from "./explorer-world.js";
import { ServiceProcess } from "./service-process.js";

describe.skipIf(chromium === undefined)("the explorer and markets of venues", () => {
  const { url } = newDatabaseUrl();
  const venue = new VenueRecording();
  let service: ServiceProcess;
  let browser: Browser;

  /** Loads what was recorded since the last time. */
  const load = () => loadRecording(url, venue.bytes());

  beforeAll(async () => {
    const book = { asks: [level("10.5", "2")], sequenceNumber: 1n };
    venue.define({ code: "GOLD" }).snapshot({ bids: [level("10", "1.5")], ...book });
    venue.define({ marketId: "n", code: "SILVER" }).snapshot({ marketId: "n", bids: [level("7", "1")] });
    await load();
    service = new ServiceProcess(url, await freePort());
    [browser] = await Promise.all([launchChromium(chromium ?? ""), service.start()]);
  });

  afterAll(async () => {
    await browser?.close();
    await service?.kill();
  });

  test("a stale market's book goes, and comes back with the next snapshot; others stay", {
    timeout: 90_000,
  }, async () => {
    const page = await browser.newPage();
    const problems: string[] = [];
    page.on("pageerror", (error) => problems.push(error.message));
    await page.goto(`${service.url}/#/market/m`);
    const bid = () =>
      page
        .locator("#best-bid")
        .textContent({ timeout: 1_000 })
        .catch(() => "none");
    await expect.poll(bid, patience).toContain("10.00");
    venue.delta({ bids: [level("11", "1")], sequenceNumber: 9n });
    await load();
    await expect.poll(bid, patience).toBe("none");
    const others = await browser.newPage();
    others.on("pageerror", (error) => problems.push(error.message));
    await others.goto(`${service.url}/#/market/n`);
    await expect.poll(() => others.locator("#best-bid").textContent(), patience).toContain("7.00");
    venue.snapshot({ bids: [level("12", "1")], sequenceNumber: 9n });
    await load();
    await expect.poll(bid, patience).toContain("12.00");
    venue.define({ code: "GOLD", priceDecimals: 4 }).snapshot({ bids: [level("12.5", "1")], sequenceNumber: 10n });
    await load();
    await expect.poll(bid, patience).toContain("12.5000");
    expect(problems).toEqual([]);
  });
});
