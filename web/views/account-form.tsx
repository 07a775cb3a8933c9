import { useEffect, useRef } from "preact/hooks";
import { thrownText } from "../../src/domain/thrown-text.js";
import { type AccountRange, dayAfter, dayOf, dayText, withDay } from "../accounts/account-range.js";
import { AssetField, AssetList } from "../components/asset-field.js";
import { ChoiceField, TextField } from "../components/fields.js";
import type { NamedMarket } from "../hooks/use-market-names.js";
import { navigate, queryHref } from "../route.js";
import { typeOptions } from "./account-fields.js";
import { DateFields } from "./date-fields.js";
import { formQuery } from "./form-query.js";

const any = { value: "", text: "any" };
/** A browser tells of a year while it is typed: 0002, 0020, 0202. */
const firstDay = "1970-01-01";
/** Times of 64 bits go on for some months more. */
const lastDay = "2261-12-31";

interface AccountFormProps {
  /** As the API takes it. */
  readonly query: URLSearchParams;
  readonly markets: readonly NamedMarket[];
  /** What is wrong with the values that were given last; empty: nothing. */
  readonly problem: string;
  readonly onProblem: (problem: string) => void;
  /** Told of the query that is shown from now on, which may be the same. */
  readonly onShow: (query: URLSearchParams) => void;
}

/** Which accounts, and which time. Its values are those of the URL. */
export function AccountForm({ query, markets, problem, onProblem, onShow }: AccountFormProps) {
  const submit = (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    try {
      const given = formQuery(event.currentTarget);
      onShow(given);
      navigate(queryHref("account", given));
    } catch (thrown) {
      onProblem(thrownText(thrown));
    }
  };
  const marketOptions = markets.map(({ id, label }) => ({ value: id, text: label }));
  return (
    <form id="account-form" class="bar" onSubmit={submit}>
      <AssetList />
      <TextField label="Party" name="filter.partyIds" query={query} placeholder="its id" />
      <AssetField label="Asset" name="filter.assetId" query={query} />
      <ChoiceField label="Market" name="filter.marketIds" query={query} options={[any, ...marketOptions]} />
      <ChoiceField label="Account type" name="filter.accountTypes" query={query} options={[any, ...typeOptions]} />
      <DateFields query={query} />
      <button type="submit">Show</button>
      {problem !== "" && (
        <p class="notice" role="alert">
          {problem}
        </p>
      )}
    </form>
  );
}

interface DayChoiceProps {
  readonly query: URLSearchParams;
  readonly range: AccountRange;
}

/** Chooses a day in UTC, the ones beside it, or all time. */
export function DayChoice({ query, range }: DayChoiceProps) {
  const day = dayOf(range);
  const input = useRef<HTMLInputElement>(null);
  // Not an attribute: what is being typed would be replaced whenever something else changes.
  useEffect(() => {
    if (input.current !== null) input.current.value = day ?? "";
  }, [day]);
  const hrefOf = (other: string | undefined) => queryHref("account", withDay(query, other));
  const choose = ({ currentTarget }: { readonly currentTarget: HTMLInputElement }) => {
    if (currentTarget.value !== "" && currentTarget.validity.valid) navigate(hrefOf(currentTarget.value));
  };
  const beside = (days: number) => day !== undefined && dayAfter(day, days);
  const [previous, next] = [beside(-1), beside(1)];
  return (
    <div class="actions">
      {previous && (
        <a class="button" href={hrefOf(previous)}>
          ‹ {dayText(previous)}
        </a>
      )}
      <label class="day">
        A whole day (UTC)
        <input id="day" type="date" min={firstDay} max={lastDay} ref={input} onChange={choose} />
      </label>
      {next && (
        <a class="button" href={hrefOf(next)}>
          {dayText(next)} ›
        </a>
      )}
      <a class="button" href={hrefOf(undefined)}>
        All time
      </a>
    </div>
  );
}
