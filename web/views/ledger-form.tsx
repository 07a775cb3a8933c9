import { thrownText } from "../../src/domain/thrown-text.js";
import { AssetList } from "../components/asset-field.js";
import { ChoiceField, ListField } from "../components/fields.js";
import { enumName } from "../format/names.js";
import type { NamedMarket } from "../hooks/use-market-names.js";
import { navigate, queryHref } from "../route.js";
import { transferTypes } from "../service/enum-values.js";
import { AccountFields } from "./account-fields.js";
import { DateFields } from "./date-fields.js";
import { formQuery, type LinkQuery } from "./form-query.js";

const transferOptions = transferTypes.map((value) => ({ value, text: enumName(value, "TRANSFER_TYPE_") }));

/** All filters of the ledger. Its values are those of the URL, whose parameters are named as the API names them. */
export function LedgerForm({
  query,
  problem,
  setProblem,
  markets,
}: LinkQuery & { readonly markets: readonly NamedMarket[] }) {
  const submit = (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    try {
      const given = formQuery(event.currentTarget);
      setProblem("");
      navigate(queryHref("ledger", given));
    } catch (thrown) {
      setProblem(thrownText(thrown));
    }
  };
  return (
    <form id="ledger-form" class="ledger-form" onSubmit={submit}>
      <AssetList />
      <AccountFields legend="Account that pays" name="fromAccountFilter" query={query} markets={markets} />
      <AccountFields legend="Account that receives" name="toAccountFilter" query={query} markets={markets} />
      <fieldset>
        <legend>Entry</legend>
        <ChoiceField
          label="Both accounts given"
          name="filter.closeOnAccountFilters"
          query={query}
          options={[
            { value: "", text: "either has to match" },
            { value: "true", text: "both have to match" },
          ]}
        />
        <ChoiceField
          label="Order"
          name="pagination.newestFirst"
          query={query}
          options={[
            { value: "", text: "newest first" },
            { value: "false", text: "oldest first" },
          ]}
        />
        <DateFields query={query} />
        <ListField label="Transfer types" name="filter.transferTypes" query={query} options={transferOptions} />
      </fieldset>
      <div class="actions">
        <button type="submit">Show</button>
        <a class="button" href="#/ledger">
          Clear
        </a>
        {problem !== "" && (
          <p class="notice" role="alert">
            {problem}
          </p>
        )}
      </div>
    </form>
  );
}
