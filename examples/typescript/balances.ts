// What a party holds, and how that came about, oldest first: node balances.js PARTY
import { AccountType, accounts, balanceChanges, createMarketdClient } from "@marketd/client";

const client = createMarketdClient(process.env["MARKETD"] ?? "http://127.0.0.1:8080");
const party = process.argv[2];
if (party === undefined) throw new Error("usage: node balances.js PARTY");

const filter = { partyIds: [party] };
// An asset that was never announced has no decimals: its balances are integers.
for await (const { account, asset, balance } of accounts(client, { filter })) {
  const { type } = account;
  console.log(`holds ${balance ?? account.balance} ${asset?.details?.symbol ?? account.asset} ${AccountType[type]}`);
}
for await (const { change, asset, balance } of balanceChanges(client, { filter, newestFirst: false, pageSize: 100 })) {
  const { accountType: type = 0, assetId } = change;
  console.log(
    `${change.timestamp} ${balance ?? change.balance} ${asset?.details?.symbol ?? assetId} ${AccountType[type]}`,
  );
}
