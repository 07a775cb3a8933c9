import { type DescEnum, type DescField, ScalarType } from "@bufbuild/protobuf";

/** How a parameter's text is converted to the value of a field. */
export interface ParameterValue {
  /** What is accepted, for messages of the form "got …; takes …". */
  readonly takes: string;
  /** Whether empty text counts as absent. */
  readonly emptyIsAbsent: boolean;
  /** Undefined: the text is not a valid value. */
  parse(text: string): string | number | bigint | boolean | undefined;
}

const text: ParameterValue = { takes: "text", emptyIsAbsent: true, parse: (value) => value };

const boolean: ParameterValue = {
  takes: "true or false",
  emptyIsAbsent: false,
  parse: (value) => (value === "true" ? true : value === "false" ? false : undefined),
};

const integerPattern = /^-?[0-9]+$/;
/** No 64-bit integer is longer, except for leading zeros. */
const integerLengthMax = 64;

function bigInteger(lowest: bigint, highest: bigint): ParameterValue {
  return {
    takes: `an integer from ${lowest} to ${highest}`,
    emptyIsAbsent: false,
    parse(value) {
      if (value.length > integerLengthMax || !integerPattern.test(value)) return undefined;
      const integer = BigInt(value);
      return integer < lowest || integer > highest ? undefined : integer;
    },
  };
}

function smallInteger(lowest: bigint, highest: bigint): ParameterValue {
  const big = bigInteger(lowest, highest);
  return {
    ...big,
    parse(value) {
      const integer = big.parse(value);
      return integer === undefined ? undefined : Number(integer);
    },
  };
}

const int32 = smallInteger(-(2n ** 31n), 2n ** 31n - 1n);
const uint32 = smallInteger(0n, 2n ** 32n - 1n);
const int64 = bigInteger(-(2n ** 63n), 2n ** 63n - 1n);
const uint64 = bigInteger(0n, 2n ** 64n - 1n);

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
    emptyIsAbsent: false,
    parse: (value) => numbers.get(value),
  };
}

/** How a parameter fills this field. Undefined: fields of this kind cannot be given in a URL. */
export function parameterValue(field: DescField): ParameterValue | undefined {
  if (field.fieldKind === "scalar") return scalars[field.scalar];
  if (field.fieldKind === "enum") return enumeration(field.enum);
  if (field.fieldKind !== "list") return undefined;
  if (field.listKind === "scalar") return scalars[field.scalar];
  return field.listKind === "enum" ? enumeration(field.enum) : undefined;
}
