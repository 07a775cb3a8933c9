import {
  createRegistry,
  type DescEnum,
  type DescMessage,
  isMessage,
  type Message,
  toJsonString,
} from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import { type HttpBody, HttpBodySchema } from "../../gen/google/api/httpbody_pb.js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import { type Encodable, type Fields, type ServedField, servedFields, type ValueType } from "./field-values.js";

/** The message types that may occur in a `google.protobuf.Any`: error details and the export's extensions. */
export const anyRegistry = createRegistry(StructSchema, BadRequestSchema, ErrorInfoSchema, RetryInfoSchema);

/** The library's options for the JSON of every response: fields with implicit presence are included. */
export const jsonWriteOptions = { alwaysEmitImplicit: true, registry: anyRegistry } as const;

/**
 * A file's message without its extensions: clients cannot read the JSON of an Any whose type they have not registered,
 * and headers and trailers tell the same. Other messages are returned unchanged.
 */
export function readableInJson(message: Message): Message {
  if (!isMessage(message, HttpBodySchema) || message.extensions.length === 0) return message;
  const readable: HttpBody = { ...message, extensions: [] };
  return readable;
}

type ToText = (value: unknown) => string;
type Append = (text: string, fields: Fields) => string;

const compiled = new Map<DescMessage, ToText>();

/** The JSON of a message, equal to that of the library's `toJsonString` with {@link jsonWriteOptions}. */
export function encodeJson<S extends DescMessage>(schema: S, message: Encodable<S>): string {
  return textOf(schema)(message);
}

/** Compiled on first use, because message types may be recursive. */
function textOf(schema: DescMessage): ToText {
  let text = compiled.get(schema);
  if (text === undefined) {
    // Well-known types have their own JSON mapping.
    const fields = schema.typeName.startsWith("google.protobuf.") ? undefined : servedFields(schema);
    text = fields === undefined ? byLibrary(schema) : compile(fields);
    compiled.set(schema, text);
  }
  return text;
}

function byLibrary(schema: DescMessage): ToText {
  return (value) => toJsonString(schema, value as Message, jsonWriteOptions);
}

function compile(fields: readonly ServedField[]): ToText {
  // After the first field that is always written, each needs a comma.
  const always = fields.findIndex(({ isImplicit }) => isImplicit);
  const appends = fields.map((field, i) => appendOf(field, always !== -1 && i > always));
  return (message) => {
    let text = "";
    for (const append of appends) text = append(text, message as Fields);
    return `{${text}}`;
  };
}

function appendOf(field: ServedField, isNeverFirst: boolean): Append {
  const name = `${JSON.stringify(field.jsonName)}:`;
  const nameBehindComma = `,${name}`;
  const nameIn = (text: string): string => (isNeverFirst || text !== "" ? nameBehindComma : name);
  const [value, zero] = valueText(field.type);
  if (field.isList) return (text, fields) => text + nameIn(text) + listText(field.read(fields), value);
  return (text, fields) => {
    const present = field.read(fields);
    if (present !== undefined) return text + nameIn(text) + value(present);
    return field.isImplicit ? text + nameIn(text) + zero : text;
  };
}

function listText(list: unknown, item: ToText): string {
  let text = "";
  for (const value of (list as readonly unknown[] | undefined) ?? [])
    text += text === "" ? item(value) : `,${item(value)}`;
  return `[${text}]`;
}

/** How a value is written, and the text for zero. */
function valueText(type: ValueType): [ToText, string] {
  if (typeof type === "object") return "enum" in type ? enumText(type.enum) : [messageText(type.message), ""];
  switch (type) {
    case "double":
      return [doubleText, "0"];
    case "integer":
      return [(value) => `"${value}"`, '"0"'];
    case "bool":
      return [(value) => (value === true ? "true" : "false"), "false"];
    case "string":
      return [quoted, '""'];
    case "bytes":
      return [base64Text, '""'];
  }
}

function messageText(schema: DescMessage): ToText {
  let text: ToText | undefined;
  return (value) => {
    text ??= textOf(schema);
    return text(value);
  };
}

/** By name; a number without a name remains a number. */
function enumText(schema: DescEnum): [ToText, string] {
  const names = new Map<unknown, string>(schema.values.map(({ number, name }) => [number, `"${name}"`]));
  const text: ToText = (value) => names.get(value) ?? String(value);
  return [text, text(0)];
}

/** Characters that JSON escapes, and all non-ASCII ones, which may be malformed. */
const unusual = /[^ !#-[\]-~]/;

function quoted(value: unknown): string {
  const text = value as string;
  return unusual.test(text) ? JSON.stringify(text) : `"${text}"`;
}

function doubleText(value: unknown): string {
  return Number.isFinite(value) ? String(value) : `"${value}"`;
}

function base64Text(value: unknown): string {
  const { buffer, byteOffset, length } = value as Uint8Array;
  return `"${Buffer.from(buffer, byteOffset, length).toString("base64")}"`;
}
