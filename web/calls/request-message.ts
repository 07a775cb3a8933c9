import type { Query } from "../service/service.js";

/** Fields that are lists. */
const repeated = new Set(["partyIds", "marketIds", "accountTypes", "transferTypes"]);
/** Fields whose JSON is a number. */
const numbers = new Set(["first", "last"]);
const booleans = new Set(["newestFirst", "closeOnAccountFilters"]);

function fieldValue(name: string, text: string): unknown {
  if (numbers.has(name)) return Number(text);
  return booleans.has(name) ? text === "true" : text;
}

interface Message {
  [field: string]: unknown;
}

/** The request message that URL parameters stand for, as JSON: `filter.transferTypes=A` is `{filter: {transferTypes: [A]}}`. */
export function requestMessage(query: Query): object {
  const message: Message = {};
  for (const [path, text] of query) {
    if (text === "") continue;
    const names = path.split(".");
    const name = names.pop() ?? "";
    let target = message;
    for (const each of names) {
      target[each] ??= {};
      target = target[each] as Message;
    }
    const value = fieldValue(name, text);
    target[name] = repeated.has(name) ? [...((target[name] ?? []) as unknown[]), value] : value;
  }
  return message;
}
