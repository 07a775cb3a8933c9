import type { AccountFilter, LedgerEntryFilter } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { AccountTypeSchema, TransferTypeSchema } from "../../gen/vega/vega_pb.js";
import { invalidArgument } from "../domain/failure.js";
import { requireIdentifier } from "../domain/identifier.js";
import type { AccountSide, LedgerFilter } from "../ledger/selection.js";
import { requireEnumValues } from "./enum-values.js";

/** Different values that one list of a filter holds at most. */
export const filterValuesMax = 1_000;

/** Checks a ledger filter; an account filter without any field counts as not given. @throws Failure naming the field */
export function readLedgerFilter(filter: LedgerEntryFilter | undefined): LedgerFilter {
  return {
    from: readAccountFilter("filter.from_account_filter", filter?.fromAccountFilter),
    to: readAccountFilter("filter.to_account_filter", filter?.toAccountFilter),
    closed: filter?.closeOnAccountFilters ?? false,
    transferTypes: requireEnumValues("filter.transfer_types", TransferTypeSchema, filter?.transferTypes ?? []),
  };
}

/** Checks an account filter; undefined if it has no field. @throws Failure naming the field */
export function readAccountFilter(field: string, filter: AccountFilter | undefined): AccountSide | undefined {
  if (filter === undefined) return undefined;
  if (filter.partyIds.length > 1) {
    throw invalidArgument(
      `${field}.party_ids`,
      `has ${filter.partyIds.length} parties; an account filter takes at most one`,
      "TOO_MANY_PARTIES",
    );
  }
  const [party] = filter.partyIds;
  const side: AccountSide = {
    partyId: party === undefined ? undefined : requireIdentifier(`${field}.party_ids`, party),
    assetId: filter.assetId === "" ? undefined : requireIdentifier(`${field}.asset_id`, filter.assetId),
    marketIds: readIdentifiers(`${field}.market_ids`, filter.marketIds),
    types: requireEnumValues(`${field}.account_types`, AccountTypeSchema, filter.accountTypes),
  };
  const given = side.partyId ?? side.assetId;
  return given === undefined && side.marketIds.length === 0 && side.types.length === 0 ? undefined : side;
}

/** The different identifiers in one list of a filter. @throws Failure naming the field */
export function readIdentifiers(field: string, given: readonly string[]): readonly string[] {
  const ids = [...new Set(given)];
  if (ids.length > filterValuesMax) {
    throw invalidArgument(field, `has ${ids.length} values; it takes at most ${filterValuesMax}`, "TOO_MANY_VALUES");
  }
  return ids.map((id) => requireIdentifier(field, id));
}
