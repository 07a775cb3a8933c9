import { AssetField } from "../components/asset-field.js";
import { ListField, TextField } from "../components/fields.js";
import { enumName } from "../format/names.js";
import type { NamedMarket } from "../hooks/use-market-names.js";
import { accountTypes } from "../service/enum-values.js";

/** The types of accounts, as options of a field. */
export const typeOptions = accountTypes.map((value) => ({ value, text: enumName(value, "ACCOUNT_TYPE_") }));
interface AccountFieldsProps {
  readonly legend: string;
  readonly name: "fromAccountFilter" | "toAccountFilter";
  readonly query: URLSearchParams;
  readonly markets: readonly NamedMarket[];
}

/** The filter of one of the two accounts of an entry. */
export function AccountFields({ legend, name, query, markets }: AccountFieldsProps) {
  const field = (of: string) => ({ name: `filter.${name}.${of}`, query });
  return (
    <fieldset>
      <legend>{legend}</legend>
      <TextField label="Party" {...field("partyIds")} />
      <AssetField label="Asset" {...field("assetId")} />
      <ListField
        label="Markets"
        {...field("marketIds")}
        options={markets.map((market) => ({ value: market.id, text: market.label }))}
      />
      <ListField label="Account types" {...field("accountTypes")} options={typeOptions} />
    </fieldset>
  );
}
