// Runs in a browser, from the package as it is installed.
import { createMarketdClient, exportLedger, ledgerEntries, readDepth } from "@marketd/client";

/** What the client finds out in a browser. */
export interface Findings {
  readonly market: string;
  readonly bestBid: string | undefined;
  readonly received: number;
  readonly sha256: string;
}

async function tryClient(url: string, partyId: string, assetId: string): Promise<Findings> {
  const client = createMarketdClient(url);
  let received = 0;
  const filter = { toAccountFilter: { partyIds: [partyId] } };
  for await (const _ of ledgerEntries(client, { filter, pageSize: 100 })) received++;
  const { sha256 } = await exportLedger(client, { partyId, assetId }, () => {});
  for await (const { book } of readDepth(client)) {
    return { market: book.marketId, bestBid: book.bestBid?.price, received, sha256 };
  }
  throw new Error("there is no book");
}

Object.assign(globalThis, { tryClient });
