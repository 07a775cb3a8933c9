import type { DescField, DescMessage, Message } from "@bufbuild/protobuf";
import { type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { type Failure, invalidParameter } from "../../domain/failure.js";
import { nearestName } from "./nearest-name.js";
import { type ParameterValue, parameterValue } from "./parameter-value.js";

/** A field that a parameter sets. */
export interface Parameter {
  /** Its path in JSON names, as errors show it. */
  readonly name: string;
  /** The message fields that contain it. */
  readonly parents: readonly (DescField & { fieldKind: "message" })[];
  readonly field: DescField;
  readonly value: ParameterValue;
  readonly fromPath: boolean;
}

/** The request in a URL. */
export interface BoundRequest {
  readonly message: Message;
  /** The value of `?alt=`. */
  readonly alt: string | undefined;
}

/** Longer texts are cut in messages. */
const quotedLengthMax = 80;

/**
 * The parameters of one route, derived from the request's definition when the server starts. Each field has its JSON
 * name and its protobuf name, per segment.
 */
export class QueryParameters {
  /** The value that `?alt=` takes; undefined: there is no such parameter. */
  readonly alt: string | undefined;
  readonly #schema: DescMessage;
  readonly #byName = new Map<string, Parameter>();
  readonly #path: Parameter[] = [];
  readonly #known: string[] = [];

  /**
   * `pathFields` are the protobuf paths of the template's variables, in order.
   * @throws Error if a field of the request cannot be given in a URL
   */
  constructor(schema: DescMessage, pathFields: readonly string[], alt?: string) {
    this.#schema = schema;
    this.alt = alt;
    this.#add(schema, [], [""], new Set(pathFields), []);
    for (const path of pathFields) {
      const parameter = this.#byName.get(path);
      if (parameter === undefined || parameter.field.fieldKind === "list") {
        throw new Error(`${schema.typeName}: path variable {${path}} is not a single field of it`);
      }
      this.#path.push(parameter);
    }
    if (alt !== undefined) this.#known.push("alt");
  }

  /** Each parameter once, in the order of the definitions. */
  get all(): readonly Parameter[] {
    return [...new Set(this.#byName.values())];
  }

  /**
   * Builds the request from the undecoded path segments of the template's variables, and the undecoded query without
   * its question mark.
   * @throws Failure INVALID_ARGUMENT naming the parameter, its value and what is valid
   */
  bind(segments: readonly string[], query: string): BoundRequest {
    const message = reflect(this.#schema);
    this.#path.forEach((parameter, i) => {
      const text = decode(segments[i] ?? "");
      if (text === undefined) throw badEscape(parameter.name, segments[i] ?? "");
      assign(message, parameter, text);
    });
    const alt = query === "" ? undefined : this.#bindQuery(message, query);
    return { message: message.message, alt };
  }

  #add(
    schema: DescMessage,
    parents: readonly (DescField & { fieldKind: "message" })[],
    prefixes: readonly string[],
    pathFields: ReadonlySet<string>,
    above: readonly DescMessage[],
  ): void {
    for (const field of schema.fields) {
      const names = [...new Set(prefixes.flatMap((p) => [`${p}${field.jsonName}`, `${p}${field.name}`]))];
      if (field.fieldKind === "message" && !above.includes(field.message)) {
        const inner = names.map((name) => `${name}.`);
        this.#add(field.message, [...parents, field], inner, pathFields, [...above, schema]);
        continue;
      }
      const value = parameterValue(field);
      const [name = field.jsonName] = names;
      if (value === undefined) throw new Error(`${schema.typeName}: ${name} cannot be given in a URL`);
      const fromPath = names.some((spelling) => pathFields.has(spelling));
      const parameter = { name, parents, field, value, fromPath };
      for (const spelling of names) this.#byName.set(spelling, parameter);
      if (!fromPath) this.#known.push(name);
    }
  }

  #bindQuery(message: ReflectMessage, query: string): string | undefined {
    const given = new Map<string, string>();
    for (const piece of query.split("&")) {
      if (piece === "") continue;
      const equals = piece.indexOf("=");
      const name = decodeName(equals === -1 ? piece : piece.slice(0, equals));
      if (name.startsWith("_")) continue;
      const rawText = equals === -1 ? "" : piece.slice(equals + 1);
      const parameter = this.#byName.get(name);
      if (parameter !== undefined) bindParameter(message, parameter, rawText, given);
      else if (name === "alt" && this.alt !== undefined) bindAlt(this.alt, rawText, given);
      else throw this.#unknown(name);
    }
    const alt = given.get("alt");
    return alt === "" ? undefined : alt;
  }

  #unknown(name: string): Failure {
    const nearest = nearestName(name, this.#known);
    const hint = nearest === undefined ? "there are none here" : `did you mean ${nearest}?`;
    return invalidParameter(cut(name), `unknown parameter; ${hint}`, "UNKNOWN_PARAMETER");
  }
}

function bindParameter(message: ReflectMessage, parameter: Parameter, raw: string, given: Map<string, string>): void {
  const { name } = parameter;
  const text = decodeText(name, raw);
  if (parameter.fromPath) {
    throw invalidParameter(name, `got ${quoted(text)} in the query; it is already given in the path`);
  }
  if (parameter.field.fieldKind !== "list") onlyOnce(given, name, text);
  if (text !== "" || !parameter.value.emptyIsAbsent) assign(message, parameter, text);
}

function bindAlt(takes: string, raw: string, given: Map<string, string>): void {
  const text = decodeText("alt", raw);
  onlyOnce(given, "alt", text);
  if (text !== "" && text !== takes) throw wrongValue("alt", text, takes);
}

function onlyOnce(given: Map<string, string>, name: string, text: string): void {
  const before = given.get(name);
  if (before !== undefined) {
    throw invalidParameter(name, `got ${quoted(before)} and ${quoted(text)}; takes one value`);
  }
  given.set(name, text);
}

function assign(root: ReflectMessage, parameter: Parameter, text: string): void {
  const value = parameter.value.parse(text);
  if (value === undefined) throw wrongValue(parameter.name, text, parameter.value.takes);
  let message = root;
  for (const parent of parameter.parents) {
    if (!message.isSet(parent)) message.set(parent, reflect(parent.message));
    message = message.get(parent);
  }
  if (parameter.field.fieldKind === "list") message.get(parameter.field).add(value);
  else message.set(parameter.field, value);
}

function wrongValue(name: string, text: string, takes: string): Failure {
  return invalidParameter(name, `got ${quoted(text)}; takes ${takes}`);
}

function badEscape(name: string, raw: string): Failure {
  return invalidParameter(name, `got ${quoted(raw)}; takes percent escapes (%2F) of UTF-8 text`);
}

function quoted(text: string): string {
  return JSON.stringify(cut(text));
}

function cut(text: string): string {
  return text.length <= quotedLengthMax ? text : `${text.slice(0, quotedLengthMax)}…`;
}

function decodeName(raw: string): string {
  const name = decodePlus(raw);
  if (name === undefined) throw badEscape(cut(raw), raw);
  return name;
}

function decodeText(name: string, raw: string): string {
  const text = decodePlus(raw);
  if (text === undefined) throw badEscape(name, raw);
  return text;
}

function decodePlus(text: string): string | undefined {
  return decode(text.includes("+") ? text.replaceAll("+", " ") : text);
}

/** Percent-decodes. Undefined if an escape is malformed or not UTF-8. */
export function decode(text: string): string | undefined {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
