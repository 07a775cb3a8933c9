import { afterEach, expect, test } from "vitest";
import { MarketFixture } from "../live/market-fixture.js";
import { freePort } from "../support/free-port.js";
import { type PollingOutcome, pollingClients } from "../support/polling-clients.js";
import { tries } from "../support/tries.js";
import { ServiceProcess } from "./service-process.js";

/* Clients that keep their connections and go on asking while the service is told to go, again and again. */

const rounds = tries(6);
const clientsOfAKind = 12;

const openings: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of openings.splice(0).reverse()) await close();
});

test("no connection that waits for a response is ended by a drain", async () => {
  const fixture = await MarketFixture.create();
  openings.push(() => fixture.drop());
  await fixture.add({ announce: ["a"], levels: [{ marketId: "a", side: 1, price: "7", volume: 3n }] });
  const port = await freePort();
  const service = new ServiceProcess(fixture.url, port);
  openings.push(() => service.kill());
  const outcomes: { readonly name: string; readonly outcome: PollingOutcome }[] = [];
  for (let round = 0; round < rounds; round++) {
    await service.start();
    let stopped = false;
    const ofRound: PollingOutcome[] = [];
    const clients = Object.entries(pollingClients).flatMap(([name, client]) => {
      return Array.from({ length: clientsOfAKind }, () => {
        const outcome: PollingOutcome = { answered: 0, refused: 0, lost: [] };
        outcomes.push({ name, outcome });
        ofRound.push(outcome);
        return client(port, () => stopped, outcome);
      });
    });
    // Every client has its connection: what waits to be accepted when the port closes is another matter.
    await expect.poll(() => ofRound.every(({ answered }) => answered > 3), { timeout: 20_000 }).toBe(true);
    const startedMs = performance.now();
    expect(await service.stop()).toBe(0);
    expect(performance.now() - startedMs).toBeLessThan(8_000);
    stopped = true;
    await Promise.all(clients);
  }
  expect(outcomes.flatMap(({ name, outcome }) => outcome.lost.map((how) => `${name}: ${how}`))).toEqual([]);
  expect(outcomes.some(({ outcome }) => outcome.refused > 0)).toBe(true);
});
