import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AccountType, TransferType } from "../../gen/vega/vega_pb.js";
import { nanoseconds } from "../../src/domain/instant.js";
import { RecordingBuilder } from "../support/recording.js";
import { chromium, ExplorerWorld, patience } from "./explorer-world.js";

const longName = `A coin with a name of ${"very ".repeat(30)}many words`;
const assets = [
  { id: "btc", symbol: "BTC", name: "Bitcoin", decimals: 8n },
  { id: "fine", symbol: "FINE", name: longName, decimals: 30n },
  { id: "same-1", symbol: "SAME", name: "One of two", decimals: 0n },
  { id: "same-2", symbol: "SAME", name: "The other", decimals: 0n },
];
const alice = `alice-${"0123456789abcdef".repeat(4)}`;
const general = (owner: string, assetId = "btc") => ({ owner, assetId, type: AccountType.GENERAL });

/** Accounts of a few days of January 2024, whose 30th is a Tuesday. */
class AccountRecording extends RecordingBuilder {
  #height = 0;

  at(time: string, fill: (recording: this) => unknown): this {
    return this.block(++this.#height, BigInt(nanoseconds(time) ?? 0), fill);
  }
}

const recording = new AccountRecording().at("2024-01-29 10:00", (block) => {
  for (const { id, ...details } of assets) block.asset(id, { details });
  const external = { assetId: "old", type: AccountType.EXTERNAL };
  const amount = "123456789";
  block.transfer({ from: external, to: general(alice, "old"), amount, toBalance: amount, type: TransferType.DEPOSIT });
});

describe.skipIf(chromium === undefined)("accounts in the explorer", () => {
  const world = new ExplorerWorld();
  let page: Page;
  let problems: string[];

  beforeAll(async () => {
    await world.replay(recording.bytes());
    await world.serve();
    ({ page, problems } = await world.open(""));
  });

  afterAll(async () => {
    await world.stop();
    expect(problems).toEqual([]);
  });

  const textOf = (selector: string) => async () => (await page.textContent(selector)) ?? "";
  const show = (fragment: string) => page.evaluate(`location.hash = ${JSON.stringify(fragment)}`);

  test("amounts of an asset that the service does not know are unscaled, and say so", async () => {
    await show("#/ledger?filter.toAccountFilter.assetId=old");
    await expect.poll(textOf("#entries td.number"), patience).toBe("123\u202f456\u202f789 unscaled");
    expect(await page.locator("#entries td:nth-child(4) .balance").textContent()).toContain("unscaled");
  });

  test("a symbol that several assets have is no asset, but each of them can be chosen", async () => {
    await show("#/ledger");
    const field = page.locator('[name="filter.fromAccountFilter.assetId"]');
    const submit = page.locator("#ledger-form").getByRole("button", { name: "Show" });
    await expect.poll(() => page.locator("#asset-list option").count(), patience).toBe(assets.length);
    await field.fill("same");
    await submit.click();
    await expect.poll(textOf("#ledger-form [role=alert]"), patience).toContain('2 assets have the symbol "same"');
    const labels = `[...document.querySelectorAll("#asset-list option")].map((option) => option.value)`;
    expect(await page.evaluate(labels)).toEqual(["BTC", "FINE", "SAME · same-1", "SAME · same-2"]);
    await field.fill("SAME · same-2");
    await submit.click();
    await expect.poll(() => page.url(), patience).toContain("filter.fromAccountFilter.assetId=same-2");
  });
});
