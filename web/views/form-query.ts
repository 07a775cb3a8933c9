import { timeOf } from "../components/time.js";
import { assetIdOf } from "../service/assets.js";

/**
 * A parameter's value from the text of its field.
 * @throws {Error} at a time that is none, a symbol of several assets, or a shortened identifier
 */
function parameterOf(name: string, text: string): string {
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
    const value = parameterOf(name, String(text).trim());
    if (value !== "") query.append(name, value);
  }
  const [from, before] = ["start", "end"].map((bound) => query.get(`dateRange.${bound}Timestamp`));
  if (from && before && BigInt(from) > BigInt(before)) throw new Error("From is after Before");
  return query;
}
