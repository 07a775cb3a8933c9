import { nanoseconds } from "../../src/domain/instant.js";
import { assetIdOf } from "../service/assets.js";

/** A parameter's value from the text of its field. @throws {Error} at a time that is none, or a symbol of several assets */
function parameterOf(name: string, text: string): string {
  if (text === "") return text;
  if (name.endsWith("assetId")) return assetIdOf(text);
  if (!name.endsWith("Timestamp")) return text;
  const time = nanoseconds(text);
  if (time === undefined) throw new Error(`"${text}" is no time; one looks like 2024-01-31 12:00:00.5, in UTC`);
  return time;
}

/** The query that a form of filters holds: times in nanoseconds, assets by their identifiers. @throws {Error} */
export function formQuery(form: HTMLFormElement): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, text] of new FormData(form)) {
    const value = parameterOf(name, String(text).trim());
    if (value !== "") query.append(name, value);
  }
  return query;
}
