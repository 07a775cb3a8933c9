import { type DescEnum, type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import { type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { closest } from "fastest-levenshtein";
import { type Failure, invalidParameter } from "../../domain/failure.js";
import { shortened } from "../../domain/printable.js";

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
      const name = decodeText(equals === -1 ? piece : piece.slice(0, equals));
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
    const message = `${name.replaceAll("_", "")}.`.toLowerCase();
    const fields = this.#known.filter((known) => known.toLowerCase().startsWith(message));
    const nearest = fields.length > 0 ? `one of ${fields.join(", ")}` : nearestName(name, this.#known);
    const hint = nearest === undefined ? "there are none here" : `did you mean ${nearest}?`;
    return invalidParameter(cut(name), `unknown parameter; ${hint}`, "UNKNOWN_PARAMETER");
  }
}

function bindParameter(message: ReflectMessage, parameter: Parameter, raw: string, given: Map<string, string>): void {
  const { name } = parameter;
  const text = decodeText(raw, name);
  if (parameter.fromPath) {
    throw invalidParameter(name, `got ${quoted(text)} in the query; it is already given in the path`);
  }
  if (parameter.field.fieldKind !== "list") onlyOnce(given, name, text);
  if (text !== "" || !parameter.value.emptyIsAbsent) assign(message, parameter, text);
}

function bindAlt(takes: string, raw: string, given: Map<string, string>): void {
  const text = decodeText(raw, "alt");
  onlyOnce(given, "alt", text);
  if (text !== "" && text !== takes) throw wrongValue("alt", text, { takes });
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
  if (value === undefined) throw wrongValue(parameter.name, text, parameter.value);
  let message = root;
  for (const parent of parameter.parents) {
    if (!message.isSet(parent)) message.set(parent, reflect(parent.message));
    message = message.get(parent);
  }
  if (parameter.field.fieldKind === "list") message.get(parameter.field).add(value);
  else message.set(parameter.field, value);
}

function wrongValue(name: string, text: string, { takes, reason }: Pick<ParameterValue, "takes" | "reason">): Failure {
  return invalidParameter(name, `got ${quoted(text)}; takes ${takes}`, reason);
}

function badEscape(name: string, raw: string): Failure {
  return invalidParameter(name, `got ${quoted(raw)}; takes percent escapes (%2F) of UTF-8 text`);
}

function quoted(text: string): string {
  return JSON.stringify(cut(text));
}

function cut(text: string): string {
  return shortened(text, quotedLengthMax);
}

/** Decodes a name, or the value of the parameter `name`. @throws Failure */
function decodeText(raw: string, name = cut(raw)): string {
  const text = decode(raw.includes("+") ? raw.replaceAll("+", " ") : raw);
  if (text === undefined) throw badEscape(name, raw);
  return text;
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

/** The known name that is most like `name`, ignoring case; undefined if none is known. */
function nearestName(name: string, known: readonly string[]): string | undefined {
  const lower = known.map((each) => each.toLowerCase());
  return known[lower.indexOf(closest(cut(name).toLowerCase(), lower))];
}

/** How a parameter's text is converted to the value of a field. */
interface ParameterValue {
  /** What is accepted, for messages of the form "got …; takes …". */
  readonly takes: string;
  /** Of the failure of another value. Default: that of any parameter. */
  readonly reason?: string;
  /** Whether empty text counts as absent. */
  readonly emptyIsAbsent: boolean;
  /** Undefined: the text is not a valid value. */
  parse(text: string): string | number | bigint | boolean | undefined;
}

const text: ParameterValue = { takes: "text", emptyIsAbsent: true, parse: (value) => value };

/** Python writes `True`. Gateways written in Go accept all of these (`strconv.ParseBool`). */
const booleans: ReadonlyMap<string, boolean> = new Map([
  ...["true", "True", "TRUE", "t", "T", "1"].map((spelling) => [spelling, true] as const),
  ...["false", "False", "FALSE", "f", "F", "0"].map((spelling) => [spelling, false] as const),
]);

const boolean: ParameterValue = {
  takes: "true or false",
  emptyIsAbsent: false,
  parse: (value) => booleans.get(value),
};

const integerPattern = /^-?[0-9]+$/;
/** No 64-bit integer is longer, except for leading zeros. */
const integerLengthMax = 64;

function integer(lowest: bigint, highest: bigint, toValue: (value: bigint) => bigint | number): ParameterValue {
  return {
    takes: `an integer from ${lowest} to ${highest}`,
    emptyIsAbsent: false,
    parse(value) {
      if (value.length > integerLengthMax || !integerPattern.test(value)) return undefined;
      const parsed = BigInt(value);
      return parsed < lowest || parsed > highest ? undefined : toValue(parsed);
    },
  };
}

const int32 = integer(-(2n ** 31n), 2n ** 31n - 1n, Number);
const uint32 = integer(0n, 2n ** 32n - 1n, Number);
const int64 = integer(-(2n ** 63n), 2n ** 63n - 1n, BigInt);
const uint64 = integer(0n, 2n ** 64n - 1n, BigInt);

const scalars: Partial<Record<ScalarType, ParameterValue>> = {
  [ScalarType.STRING]: text,
  [ScalarType.BOOL]: boolean,
  [ScalarType.INT32]: int32,
  [ScalarType.SINT32]: int32,
  [ScalarType.SFIXED32]: int32,
  [ScalarType.UINT32]: uint32,
  [ScalarType.FIXED32]: uint32,
  [ScalarType.INT64]: int64,
  [ScalarType.SINT64]: int64,
  [ScalarType.SFIXED64]: int64,
  [ScalarType.UINT64]: uint64,
  [ScalarType.FIXED64]: uint64,
};

/** Names or declared numbers, except the "unspecified" value: in a filter it could only be a mistake. */
function enumeration(desc: DescEnum): ParameterValue {
  const numbers = new Map<string, number>();
  const usable = desc.values.filter((value) => !(value.number === 0 && value.name.endsWith("_UNSPECIFIED")));
  for (const value of usable) {
    numbers.set(value.name, value.number);
    numbers.set(String(value.number), value.number);
  }
  const [example] = usable;
  const hint = example === undefined ? "" : `, such as ${example.name} or ${example.number}`;
  const unspecified = desc.values.find((value) => !usable.includes(value));
  const except = unspecified === undefined ? "" : `; ${unspecified.name} selects nothing`;
  return {
    takes: `the name or number of a ${desc.typeName}${hint}${except}`,
    reason: "INVALID_ENUM_VALUE",
    emptyIsAbsent: false,
    parse: (value) => numbers.get(value),
  };
}

/** How a parameter fills this field. Undefined: fields of this kind cannot be given in a URL. */
function parameterValue(field: DescField): ParameterValue | undefined {
  if (field.fieldKind === "scalar") return scalars[field.scalar];
  if (field.fieldKind === "enum") return enumeration(field.enum);
  if (field.fieldKind !== "list") return undefined;
  if (field.listKind === "scalar") return scalars[field.scalar];
  return field.listKind === "enum" ? enumeration(field.enum) : undefined;
}
