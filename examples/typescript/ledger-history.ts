// Everything that a party received, oldest first: node ledger-history.js PARTY
import { AccountType, createMarketdClient, ledgerEntries, TransferType } from "@marketd/client";

const client = createMarketdClient(process.env["MARKETD"] ?? "http://127.0.0.1:8080");
const party = process.argv[2];
if (party === undefined) throw new Error("usage: node ledger-history.js PARTY");

const received = ledgerEntries(client, {
  filter: { toAccountFilter: { partyIds: [party] } },
  newestFirst: false,
  pageSize: 500,
});
const totals = new Map<string, bigint>();
let count = 0;
for await (const { node } of received) {
  count++;
  // Times are nanoseconds, which Date does not hold.
  const time = new Date(Number(node.timestamp / 1_000_000n)).toISOString();
  const asset = node.assetId ?? "";
  totals.set(asset, (totals.get(asset) ?? 0n) + BigInt(node.quantity));
  console.log(`${time} ${node.quantity} ${TransferType[node.transferType]} ${AccountType[node.toAccountType]}`);
}
for (const [asset, total] of totals) console.log(`in all ${total} of ${asset}`);
console.log(`${count} entries`);
