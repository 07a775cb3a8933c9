// A party's ledger of an asset as a CSV file that is complete: node verified-export.js PARTY ASSET FILE
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { finished } from "node:stream/promises";
import { createMarketdClient, exportLedger } from "@marketd/client";

const client = createMarketdClient(process.env["MARKETD"] ?? "http://127.0.0.1:8080");
const [partyId, assetId, path] = process.argv.slice(2);
if (partyId === undefined || assetId === undefined || path === undefined) {
  throw new Error("usage: node verified-export.js PARTY ASSET FILE");
}

// The file gets its name when it is known to be complete.
const unfinished = `${path}.part`;
const file = createWriteStream(unfinished);
try {
  const summary = await exportLedger(client, { partyId, assetId }, async (csv) => {
    if (!file.write(csv)) await once(file, "drain");
  });
  await finished(file.end());
  await rename(unfinished, path);
  console.log(`${summary.rows} rows, sum of effects ${summary.sumOfEffects}`);
  console.log(`SHA-256 ${summary.sha256}`);
} finally {
  await rm(unfinished, { force: true });
}
