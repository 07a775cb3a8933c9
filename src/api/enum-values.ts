import type { DescEnum } from "@bufbuild/protobuf";
import { invalidArgument } from "../domain/failure.js";

/**
 * Checks the enum values of a filter, and gives each once. The value 0 is `_UNSPECIFIED` in all of our enums and
 * selects nothing that exists, so it is refused like a number that the definitions do not know.
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
