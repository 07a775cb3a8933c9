import type { DescEnum, DescField, DescMessage, DescService } from "@bufbuild/protobuf";
import { ScalarType } from "@bufbuild/protobuf";
import { type Commented, commentOf, isWellKnown, reachable, title } from "./definitions.js";

const introduction = `# Messages

Made from the definitions in [\`proto/\`](../proto) by \`MARKETD_RENEW_GOLDEN=1 npx vitest run test/golden\`; edit those.
What holds for all values (times in nanoseconds, scaled integers, 64-bit integers as JSON strings, what is left out) is in
[api.md](api.md#values).
`;

/** The reference of every message and enum that the services' methods reach, in the order in which they are reached. */
export function messageReference(services: readonly DescService[], further: readonly DescMessage[]): string {
  const methods = services.flatMap((service) => service.methods);
  const reached = reachable([...methods.flatMap((method) => [method.input, method.output]), ...further]);
  const sections = [...reached].map((desc) => (desc.kind === "enum" ? enumSection(desc) : messageSection(desc)));
  return [introduction, ...sections].join("\n");
}

function messageSection(message: DescMessage): string {
  const rows = message.fields.map(
    (field) => `| \`${field.jsonName}\` | ${fieldType(field)} | ${field.number} | ${comment(field)} |`,
  );
  const table = rows.length === 0 ? [] : ["", "| field | type | number | |", "| --- | --- | --- | --- |", ...rows];
  return section(message, table);
}

function enumSection(enumeration: DescEnum): string {
  const rows = enumeration.values.map((value) => `| \`${value.name}\` | ${value.number} | ${comment(value)} |`);
  return section(enumeration, ["", "| value | number | |", "| --- | --- | --- |", ...rows]);
}

function section(desc: DescMessage | DescEnum, table: readonly string[]): string {
  return [`## ${title(desc)}`, "", `\`${desc.typeName}\`: ${comment(desc)}`, ...table, ""].join("\n");
}

function fieldType(field: DescField): string {
  const list = field.fieldKind === "list" ? "list of " : "";
  const optional = field.proto.proto3Optional ? "optional " : "";
  const choice = field.oneof === undefined ? "" : `, one of \`${field.oneof.name}\``;
  return `${list}${optional}${valueType(field)}${choice}`;
}

function valueType(field: DescField): string {
  if (field.fieldKind === "map") return "map of text to text";
  const named = field.message ?? field.enum;
  if (named !== undefined) return isWellKnown(named) ? `\`${named.typeName}\`` : `[${title(named)}](#${anchor(named)})`;
  return field.scalar === undefined ? "?" : ScalarType[field.scalar].toLowerCase();
}

/** How a heading is linked to: lower case, without dots. */
function anchor(desc: DescMessage | DescEnum): string {
  return title(desc).toLowerCase().replaceAll(".", "");
}

/** The comment above a declaration, as one line that fits a table. */
function comment(desc: Commented): string {
  return commentOf(desc).replaceAll("\n", " ").replaceAll("|", "\\|");
}
