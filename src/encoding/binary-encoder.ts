import { type DescMessage, type Message, toBinary } from "@bufbuild/protobuf";
import { ByteWriter } from "./byte-writer.js";
import { type Encodable, type Fields, type ServedField, servedFields, type ValueType } from "./field-values.js";

type WriteMessage = (writer: ByteWriter, fields: Fields) => void;
type WriteValue = (writer: ByteWriter, value: unknown) => void;

const varint = 0;
const fixed64 = 1;
const lengthDelimited = 2;

const writer = new ByteWriter();
const compiled = new Map<DescMessage, WriteMessage>();

/** The protobuf bytes of a message, equal to those of the library's `toBinary`, behind `headBytes` bytes to be written. */
export function encodeBinary<S extends DescMessage>(schema: S, message: Encodable<S>, headBytes = 0): Buffer {
  const write = writerOf(schema);
  writer.begin();
  write(writer, message as Fields);
  return writer.finish(headBytes);
}

/** Compiled on first use, because message types may be recursive. */
function writerOf(schema: DescMessage): WriteMessage {
  let write = compiled.get(schema);
  if (write === undefined) {
    const fields = servedFields(schema);
    write = fields === undefined ? byLibrary(schema) : compile(fields);
    compiled.set(schema, write);
  }
  return write;
}

function byLibrary(schema: DescMessage): WriteMessage {
  return (to, fields) => to.raw(toBinary(schema, fields as unknown as Message));
}

function compile(fields: readonly ServedField[]): WriteMessage {
  const fieldWriters = fields.map(fieldWriter);
  return (to, message) => {
    for (const write of fieldWriters) write(to, message);
    for (const { no, wireType, data } of (message as unknown as Message).$unknown ?? []) {
      to.varint(no * 8 + wireType);
      to.raw(data);
    }
  };
}

function fieldWriter(field: ServedField): WriteMessage {
  const [wireType, writeValue] = valueWriter(field.type);
  const tag = field.number * 8 + wireType;
  const write: WriteValue = (to, value) => {
    to.varint(tag);
    writeValue(to, value);
  };
  if (field.isList) {
    return (to, message) => {
      for (const item of (field.read(message) as readonly unknown[] | undefined) ?? []) write(to, item);
    };
  }
  const isZero = field.isImplicit ? zeroTest(field.type) : () => false;
  return (to, message) => {
    const value = field.read(message);
    if (value === undefined || isZero(value)) return;
    write(to, value);
  };
}

function zeroTest(type: ValueType): (value: unknown) => boolean {
  if (type === "string") return (value) => value === "";
  if (type === "bytes") return (value) => (value as Uint8Array).length === 0;
  if (type === "bool") return (value) => value === false;
  // -0 is not the default.
  if (type === "double") return (value) => Object.is(value, 0);
  return (value) => value === 0 || value === 0n || value === "0";
}

function valueWriter(type: ValueType): [number, WriteValue] {
  if (typeof type === "object")
    return "enum" in type ? [varint, integer] : [lengthDelimited, messageWriter(type.message)];
  switch (type) {
    case "double":
      return [fixed64, (to, value) => to.double(value as number)];
    case "integer":
      return [varint, integer];
    case "bool":
      return [varint, (to, value) => to.varint(value === true ? 1 : 0)];
    case "string":
      return [lengthDelimited, (to, value) => to.text(value as string)];
    case "bytes":
      return [lengthDelimited, (to, value) => to.bytes(value as Uint8Array)];
  }
}

function messageWriter(schema: DescMessage): WriteValue {
  let write: WriteMessage | undefined;
  return (to, value) => {
    write ??= writerOf(schema);
    const start = to.open();
    write(to, value as Fields);
    to.close(start);
  };
}

/** Decimal text with at most this many digits is exact as a number. */
const exactDigits = 15;

function integer(to: ByteWriter, value: unknown): void {
  if (typeof value === "bigint") to.varint64(value);
  else if (typeof value === "string" && (value.length > exactDigits || value.startsWith("-")))
    to.varint64(BigInt(value));
  else if (Number(value) < 0) to.varint64(BigInt(value as number));
  else to.varint(Number(value));
}
