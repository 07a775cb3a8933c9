import { Readable } from "node:stream";
import { expect, it } from "vitest";
import { load } from "../../src/loader/load.js";
import { streamSource } from "../../src/loader/source.js";
import { Network, networkDefaults } from "../../src/simulator/network.js";
import { migrate } from "../../src/store/migrate.js";
import { createLog } from "../../src/telemetry/log.js";
import { newDatabaseUrl } from "../support/database.js";
import { frames } from "./recording-frames.js";

it("a simulated recording loads, and the books of the loader are those of the network, whenever it goes on", async () => {
  const log = createLog("silent");
  const { url } = newDatabaseUrl();
  await migrate(url, log);
  const network = new Network({ ...networkDefaults, seed: 21 });
  for (const blocks of [70, 1, 90]) {
    const recording = Array.from({ length: blocks }, () => network.nextBlock());
    const stated = recording
      .flatMap((block) => [...frames(block)])
      .filter(({ event }) => event.event.case === "marketData").length;
    const source = streamSource(Readable.from(recording, { objectMode: false }), "a simulated network");
    const summary = await load({ database: url, sources: [source], log });
    expect(summary.progress).toMatchObject({
      chainId: network.chainId,
      height: BigInt(network.height),
      streamSequence: network.streamSequence,
    });
    expect({ compared: summary.bestPricesCompared, different: summary.bestPricesDiffering }).toEqual({
      compared: stated,
      different: 0,
    });
  }
});
