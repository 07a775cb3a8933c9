import type { DescEnum } from "@bufbuild/protobuf";
import { invalidArgument } from "../domain/failure.js";

/**
 * Checks the enum values of a filter and removes duplicates. 0 is `_UNSPECIFIED` in all enums and matches nothing, so
 * it is refused like an undeclared number.
 * @throws Failure naming `field`
 */
export function requireEnumValues(field: string, schema: DescEnum, values: readonly number[]): readonly number[] {
  for (const value of values) {
    const declared = schema.value[value];
    if (declared === undefined) {
      throw invalidArgument(field, `is ${value}; ${schema.name} has no value of that number`, "INVALID_ENUM_VALUE");
    }
    if (value === 0) {
      throw invalidArgument(field, `is ${declared.name}; leave it out to not filter by it`, "INVALID_ENUM_VALUE");
    }
  }
  return [...new Set(values)];
}
