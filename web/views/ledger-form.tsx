import { useState } from "preact/hooks";
import { instant, nanoseconds } from "../format/instant.js";
import { enumName, shortId } from "../format/names.js";
import { navigate, queryHref } from "../route.js";
import { accountTypes, transferTypes } from "../service/enum-values.js";

/** A market that can be chosen. */
export interface MarketOption {
  readonly id: string;
  readonly name: string;
}

interface TextFieldProps {
  readonly label: string;
  readonly name: string;
  readonly query: URLSearchParams;
  readonly placeholder?: string;
}

function TextField({ label, name, query, placeholder = "any" }: TextFieldProps) {
  return (
    <label>
      {label}
      <input
        key={query.get(name)}
        name={name}
        defaultValue={query.get(name) ?? ""}
        placeholder={placeholder}
        maxLength={128}
        spellcheck={false}
        autocomplete="off"
      />
    </label>
  );
}

interface ListFieldProps {
  readonly label: string;
  readonly name: string;
  readonly query: URLSearchParams;
  readonly options: readonly { readonly value: string; readonly text: string }[];
}

function ListField({ label, name, query, options }: ListFieldProps) {
  const chosen = query.getAll(name);
  const unlisted = chosen.filter((value) => options.every((option) => option.value !== value));
  return (
    <label>
      {label}
      <select key={chosen.join()} name={name} multiple size={4}>
        {[...options, ...unlisted.map((value) => ({ value, text: shortId(value) }))].map(({ value, text }) => (
          <option key={value} value={value} selected={chosen.includes(value)}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

const typeOptions = accountTypes.map((value) => ({ value, text: enumName(value, "ACCOUNT_TYPE_") }));
const transferOptions = transferTypes.map((value) => ({ value, text: enumName(value, "TRANSFER_TYPE_") }));

interface AccountFieldsProps {
  readonly legend: string;
  readonly name: "fromAccountFilter" | "toAccountFilter";
  readonly query: URLSearchParams;
  readonly markets: readonly MarketOption[];
}

function AccountFields({ legend, name, query, markets }: AccountFieldsProps) {
  const field = (of: string) => ({ name: `filter.${name}.${of}`, query });
  return (
    <fieldset>
      <legend>{legend}</legend>
      <TextField label="Party" {...field("partyIds")} />
      <TextField label="Asset" {...field("assetId")} />
      <ListField
        label="Markets"
        {...field("marketIds")}
        options={markets.map((market) => ({ value: market.id, text: market.name }))}
      />
      <ListField label="Account types" {...field("accountTypes")} options={typeOptions} />
    </fieldset>
  );
}

const dateFields = ["dateRange.startTimestamp", "dateRange.endTimestamp"] as const;

function DateField({ label, name, query }: TextFieldProps) {
  const given = query.get(name) ?? "";
  return (
    <label>
      {label}
      <input
        key={given}
        name={name}
        defaultValue={instant(given) || given}
        placeholder="2024-01-31 12:00"
        size={28}
        autocomplete="off"
      />
    </label>
  );
}

/** The query that a form holds, with its dates in nanoseconds. @throws {Error} at a date that is none */
function queryOf(form: HTMLFormElement): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    const text = String(value).trim();
    const isDate = text !== "" && dateFields.some((field) => field === name);
    const given = isDate ? nanoseconds(text) : text;
    if (given === undefined) throw new Error(`"${text}" is no time; one looks like 2024-01-31 12:00:00.5, in UTC`);
    if (given !== "") query.append(name, given);
  }
  return query;
}

/** All filters of the ledger. Its values are those of the URL, whose parameters are named as the API names them. */
export function LedgerForm({
  query,
  markets,
}: {
  readonly query: URLSearchParams;
  readonly markets: readonly MarketOption[];
}) {
  const [problem, setProblem] = useState("");
  const submit = (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    try {
      navigate(queryHref("ledger", queryOf(event.currentTarget)));
      setProblem("");
    } catch (thrown) {
      setProblem(String(thrown instanceof Error ? thrown.message : thrown));
    }
  };
  return (
    <form id="ledger-form" class="ledger-form" onSubmit={submit}>
      <AccountFields legend="Account that pays" name="fromAccountFilter" query={query} markets={markets} />
      <AccountFields legend="Account that receives" name="toAccountFilter" query={query} markets={markets} />
      <fieldset>
        <legend>Entry</legend>
        <label>
          Both accounts given
          <select
            key={query.get("filter.closeOnAccountFilters")}
            name="filter.closeOnAccountFilters"
            defaultValue={query.get("filter.closeOnAccountFilters") ?? ""}
          >
            <option value="">either has to match</option>
            <option value="true">both have to match</option>
          </select>
        </label>
        <label>
          Order
          <select
            key={query.get("pagination.newestFirst")}
            name="pagination.newestFirst"
            defaultValue={query.get("pagination.newestFirst") ?? ""}
          >
            <option value="">newest first</option>
            <option value="false">oldest first</option>
          </select>
        </label>
        <DateField label="From (UTC)" name="dateRange.startTimestamp" query={query} />
        <DateField label="Before (UTC)" name="dateRange.endTimestamp" query={query} />
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
