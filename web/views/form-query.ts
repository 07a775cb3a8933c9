import { useMemo, useState } from "preact/hooks";
import { thrownText } from "../../src/domain/thrown-text.js";
import { linkedTime, typedTime } from "../format/time-text.js";
import { useObservable } from "../hooks/observable.js";
import { assetIdOf, assets } from "../service/assets.js";

/**
 * A parameter's value from text.
 * @throws {Error} at a time that is none, a symbol of several assets, or a shortened identifier
 */
function parameterOf(name: string, text: string, timeOf: (text: string) => string): string {
  if (text === "") return text;
  if (name.endsWith("Timestamp")) return timeOf(text);
  const id = name.endsWith("assetId") ? assetIdOf(text) : text;
  if (id.includes("…")) throw new Error(`"${text}" is shortened: give the whole identifier`);
  return id;
}

/** The query that a form of filters holds: times in nanoseconds, assets by their identifiers. @throws {Error} */
export function formQuery(form: HTMLFormElement): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, text] of new FormData(form)) {
    const value = parameterOf(name, String(text).trim(), typedTime);
    if (value !== "") query.append(name, value);
  }
  const [from, before] = ["start", "end"].map((bound) => query.get(`dateRange.${bound}Timestamp`));
  if (from && before && BigInt(from) > BigInt(before)) throw new Error("From is after Before");
  return query;
}

/** The parameters of a link as the API takes them, and what is wrong with the first that is not read; empty: nothing. */
function linkQuery(link: URLSearchParams): { readonly query: URLSearchParams; readonly problem: string } {
  let problem = "";
  const query = new URLSearchParams();
  for (const [name, text] of link) {
    try {
      query.append(name, parameterOf(name, text, linkedTime));
    } catch (thrown) {
      problem ||= thrownText(thrown);
      query.append(name, text);
    }
  }
  return { query, problem };
}

/** What a link selects, and what is wrong with it or with its form. */
export interface LinkQuery {
  /** As the API takes it. */
  readonly query: URLSearchParams;
  /** Empty: nothing is wrong. */
  readonly problem: string;
  /** Whether the assets are not read yet by whose names the link may go. */
  readonly isLoading: boolean;
  /** Says what is wrong with the form until another link is shown; empty: nothing. */
  readonly setProblem: (problem: string) => void;
}

/** Reads the parameters of a link as its form reads them. */
export function useLinkQuery(link: URLSearchParams): LinkQuery {
  const [ofForm, setOfForm] = useState({ link, problem: "" });
  const all = useObservable(assets, (value) => value);
  const { query, problem } = useMemo(() => linkQuery(link), [link, all]);
  return {
    query,
    problem: (ofForm.link === link && ofForm.problem) || problem,
    isLoading: all === undefined && [...query].some(([name, value]) => name.endsWith("assetId") && value !== ""),
    setProblem: (text) => setOfForm({ link, problem: text }),
  };
}
