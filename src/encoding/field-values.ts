import {
  type DescEnum,
  type DescField,
  type DescMessage,
  type DescOneof,
  type Message,
  type MessageShape,
  ScalarType,
} from "@bufbuild/protobuf";

/**
 * A value that can be encoded as a message: a message, or a plain object with some of its fields. A 64-bit number may
 * also be decimal text, so database rows need no conversion.
 */
export type Encodable<S extends DescMessage> = MessageShape<S> | EncodableValue<MessageShape<S>>;

type EncodableValue<T> = T extends bigint
  ? bigint | string
  : T extends Uint8Array
    ? T
    : T extends readonly (infer Item)[]
      ? readonly EncodableValue<Item>[]
      : T extends Message
        ? { readonly [Field in Exclude<keyof T, "$typeName" | "$unknown">]?: EncodableValue<T[Field]> | undefined }
        : T;

/** The fields of a message by local name. */
export type Fields = Readonly<Record<string, unknown>>;

/** Scalars that the served messages have; a 64-bit number is a varint, signed or not. */
export type ServedScalar = "double" | "integer" | "bool" | "string" | "bytes";

/** The type of a field, or of the items of a list. */
export type ValueType = ServedScalar | { readonly message: DescMessage } | { readonly enum: DescEnum };

/** A field, as the encoders see it. */
export interface ServedField {
  readonly number: number;
  readonly jsonName: string;
  readonly type: ValueType;
  readonly isList: boolean;
  /** Zero counts as unset, as for proto3 fields without presence. */
  readonly isImplicit: boolean;
  /** Undefined: not set. */
  read(fields: Fields): unknown;
}

/** The fields of a message type by number. Undefined if it has fields that only the library encodes. */
export function servedFields(schema: DescMessage): readonly ServedField[] | undefined {
  const fields = schema.fields.map(servedField);
  if (!fields.every((field) => field !== undefined)) return undefined;
  return fields.sort((a, b) => a.number - b.number);
}

const scalars: ReadonlyMap<ScalarType, ServedScalar> = new Map([
  [ScalarType.DOUBLE, "double"],
  [ScalarType.INT64, "integer"],
  [ScalarType.UINT64, "integer"],
  [ScalarType.BOOL, "bool"],
  [ScalarType.STRING, "string"],
  [ScalarType.BYTES, "bytes"],
]);

/** `FieldPresence.IMPLICIT` of descriptor.proto. */
const implicitPresence = 2;

function servedField(field: DescField): ServedField | undefined {
  const type = valueType(field);
  if (type === undefined) return undefined;
  const { number, jsonName, presence } = field;
  const isList = field.fieldKind === "list";
  return { number, jsonName, type, isList, isImplicit: presence === implicitPresence, read: readerOf(field) };
}

function valueType(field: DescField): ValueType | undefined {
  if (field.fieldKind === "map" || (field.fieldKind === "list" && field.packed)) return undefined;
  if (field.message !== undefined) return field.delimitedEncoding ? undefined : { message: field.message };
  if (field.enum !== undefined) return { enum: field.enum };
  return scalars.get(field.scalar);
}

/** How a field's value is read, including members of a oneof. */
function readerOf({ localName, oneof }: DescField): ServedField["read"] {
  return oneof === undefined ? (fields) => fields[localName] : (fields) => memberOf(oneof, localName, fields);
}

function memberOf(oneof: DescOneof, localName: string, fields: Fields): unknown {
  const chosen = fields[oneof.localName] as { readonly case?: string; readonly value?: unknown } | undefined;
  return chosen?.case === localName ? chosen.value : undefined;
}
