import { type DescEnum, type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { cursorLengthMax } from "../../src/domain/cursor.js";
import { identifierLengthMax } from "../../src/domain/identifier.js";
import type { Parameter } from "../../src/transport/http/query-parameters.js";
import { type Commented, commentOf, isWellKnown, title } from "./definitions.js";

/** A JSON Schema of OpenAPI 3.1. */
export type Schema = Readonly<Record<string, unknown>>;

const integer32 = { type: "integer", format: "int32" };
const text = { type: "string" };
// 64 bits are text, because JavaScript and others lose digits of larger numbers than 2^53.
const integer64 = { type: "string", format: "int64", pattern: "^-?[0-9]{1,19}$" };
const unsigned64 = { type: "string", format: "uint64", pattern: "^[0-9]{1,20}$" };

const scalars: Partial<Record<ScalarType, Schema>> = {
  [ScalarType.STRING]: text,
  [ScalarType.BOOL]: { type: "boolean" },
  [ScalarType.INT32]: integer32,
  [ScalarType.INT64]: integer64,
  [ScalarType.UINT64]: unsigned64,
  [ScalarType.DOUBLE]: { type: "number", format: "double" },
  [ScalarType.BYTES]: { type: "string", contentEncoding: "base64" },
};

/** The JSON of messages of `google.protobuf`. */
const wellKnown: Readonly<Record<string, Schema>> = {
  "google.protobuf.Any": { type: "object", properties: { "@type": text }, required: ["@type"] },
  "google.protobuf.Duration": { type: "string", pattern: "^-?[0-9]+(\\.[0-9]+)?s$" },
};

/** What a request's values must be, beside of their type. A test tries each against the service. */
const identifier = { minLength: 1, maxLength: identifierLengthMax, pattern: "^[ -~]+$" };
const cursor = { maxLength: cursorLengthMax };
const valueLimits: Readonly<Record<string, Schema>> = {
  marketId: identifier,
  market: identifier,
  marketIds: identifier,
  partyId: identifier,
  partyIds: identifier,
  orderIds: identifier,
  assetId: identifier,
  nodeId: identifier,
  submitter: identifier,
  epochSeq: { pattern: "^[0-9]{1,20}$" },
  first: { minimum: 1 },
  last: { minimum: 1 },
  after: cursor,
  before: cursor,
};
/** Longer lists of markets than the service takes have a longer URL than it takes. */
const listLimits: Readonly<Record<string, Schema>> = { "AccountFilter.partyIds": { maxItems: 1 } };

/** The schema of a message or an enum, with the comments of its fields or values. */
export function componentSchema(desc: DescMessage | DescEnum): Schema {
  return desc.kind === "enum" ? enumSchema(desc) : messageSchema(desc);
}

/** What every response has is required: lists, and fields of implicit presence. */
export function messageSchema(message: DescMessage): {
  readonly properties: Readonly<Record<string, Schema>>;
  readonly required: readonly string[];
} {
  const always = message.fields.filter(
    ({ fieldKind, presence }) => fieldKind !== "message" && presence === FeatureSet_FieldPresence.IMPLICIT,
  );
  return {
    ...{ type: "object", description: describe(message) },
    properties: Object.fromEntries(message.fields.map((field) => [field.jsonName, fieldSchema(field)])),
    required: always.map(({ jsonName }) => jsonName),
  };
}

function enumSchema(enumeration: DescEnum): Schema {
  const values = enumeration.values.map((value) => `- \`${value.name}\`: ${describe(value)}`);
  return {
    type: "string",
    description: [describe(enumeration), "", ...values].join("\n"),
    enum: enumeration.values.map(({ name }) => name),
  };
}

function fieldSchema(field: DescField): Schema {
  const choice = field.oneof === undefined ? "" : ` At most one field of \`${field.oneof.name}\` is set.`;
  const description = `${describe(field)}${choice}`;
  if (field.fieldKind === "list") return { type: "array", description, items: valueSchema(field) };
  if (field.fieldKind === "map") return { type: "object", description, additionalProperties: valueSchema(field) };
  return { description, ...valueSchema(field) };
}

/** The schema of a field's value, or of the values in its list. */
function valueSchema(field: DescField): Schema {
  const named = field.message ?? field.enum;
  if (named === undefined) return scalarSchema(field);
  if (!isWellKnown(named)) return reference("schemas", title(named));
  const schema = wellKnown[named.typeName];
  if (schema === undefined) throw new Error(`${field}: the JSON of ${named.typeName} is not known`);
  return schema;
}

function scalarSchema(field: DescField): Schema {
  const schema = field.scalar === undefined ? undefined : scalars[field.scalar];
  if (schema === undefined) throw new Error(`${field}: the JSON of its type is not known`);
  return schema;
}

/** The schema of what a URL takes for a field. */
export function parameterSchema({ field, value }: Parameter): Schema {
  const taken = field.enum?.values.map(({ name }) => name).filter((name) => value.parse(name) !== undefined);
  const single = {
    ...(taken === undefined ? scalarSchema(field) : { ...text, enum: taken }),
    ...valueLimits[field.jsonName],
  };
  if (field.fieldKind !== "list") return single;
  return { type: "array", items: single, ...listLimits[`${field.parent.name}.${field.jsonName}`] };
}

export function reference(kind: string, name: string): Schema {
  return { $ref: `#/components/${kind}/${name}` };
}

/** A comment as Markdown, whose lines may be broken anywhere. */
export function describe(desc: Commented): string {
  return commentOf(desc).replaceAll(/\n(?!\n|- )(?<!\n\n)/g, " ");
}
