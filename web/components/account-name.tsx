import type { AccountName } from "../accounts/balances.js";
import { enumName } from "../format/names.js";
import { queryHref } from "../route.js";

/** A link to the accounts of a party, and of an asset, a market and a type where they are given. */
export function accountHref({ owner, asset = "", marketId = "", type = "" }: Partial<AccountName>): string {
  const filter = { partyIds: owner ?? "", assetId: asset, marketIds: marketId, accountTypes: type };
  const query = Object.entries(filter).map(([name, value]) => [`filter.${name}`, value]);
  return queryHref("account", new URLSearchParams(query));
}

/** What an account is called among those of its party: its type, and its market. */
export function accountText({ type, marketId }: AccountName, nameOf: (marketId: string) => string): string {
  return `${enumName(type, "ACCOUNT_TYPE_")}${marketId === "" ? "" : ` in ${nameOf(marketId)}`}`;
}
