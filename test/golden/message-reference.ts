import type { DescEnum, DescField, DescFile, DescMessage, DescService } from "@bufbuild/protobuf";
import { ScalarType } from "@bufbuild/protobuf";

const introduction = `# Messages

Made from the definitions in [\`proto/\`](../proto) by \`MARKETD_RENEW_GOLDEN=1 npx vitest run test/golden\`; edit those.
What holds for all values (times in nanoseconds, scaled integers, 64-bit integers as JSON strings, what is left out) is in
[api.md](api.md#values).
`;

/** The reference of every message and enum that a service's methods reach, in the order in which they are reached. */
export function messageReference(service: DescService, further: readonly DescMessage[]): string {
  const reached = reachable([...service.methods.flatMap((method) => [method.input, method.output]), ...further]);
  const sections = [...reached].map((desc) => (desc.kind === "enum" ? enumSection(desc) : messageSection(desc)));
  return [introduction, ...sections].join("\n");
}

function reachable(roots: readonly DescMessage[]): Set<DescMessage | DescEnum> {
  const reached = new Set<DescMessage | DescEnum>();
  const visit = (desc: DescMessage | DescEnum) => {
    if (reached.has(desc) || isWellKnown(desc)) return;
    reached.add(desc);
    if (desc.kind === "enum") return;
    for (const { message, enum: enumeration } of desc.fields) {
      if (message !== undefined) visit(message);
      if (enumeration !== undefined) visit(enumeration);
    }
  };
  for (const root of roots) visit(root);
  return reached;
}

function isWellKnown(desc: DescMessage | DescEnum): boolean {
  return desc.file.proto.package === "google.protobuf";
}

function messageSection(message: DescMessage): string {
  const rows = message.fields.map(
    (field) =>
      `| \`${field.jsonName}\` | ${fieldType(field)} | ${field.number} | ${comment(message.file, fieldPath(field))} |`,
  );
  const table = rows.length === 0 ? [] : ["", "| field | type | number | |", "| --- | --- | --- | --- |", ...rows];
  return section(message, comment(message.file, messagePath(message)), table);
}

function enumSection(enumeration: DescEnum): string {
  const path = enumPath(enumeration);
  const rows = enumeration.proto.value.map(
    (value, index) => `| \`${value.name}\` | ${value.number} | ${comment(enumeration.file, [...path, 2, index])} |`,
  );
  return section(enumeration, comment(enumeration.file, path), [
    "",
    "| value | number | |",
    "| --- | --- | --- |",
    ...rows,
  ]);
}

function section(desc: DescMessage | DescEnum, text: string, table: readonly string[]): string {
  return [`## ${title(desc)}`, "", `\`${desc.typeName}\`: ${text}`, ...table, ""].join("\n");
}

/** The name without its package, so that nested types keep the name of what they are in. */
function title(desc: DescMessage | DescEnum): string {
  return desc.typeName.slice(desc.file.proto.package.length + 1);
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
function comment(file: DescFile, path: readonly number[]): string {
  const wanted = path.join();
  const location = file.proto.sourceCodeInfo?.location.find((candidate) => candidate.path.join() === wanted);
  const lines = (location?.leadingComments ?? "").split("\n").map((line) => line.trim());
  return lines.join(" ").trim().replaceAll("|", "\\|");
}

// Places in a FileDescriptorProto, by the numbers of its fields.
const inFile = { message: 4, enum: 5 };
const inMessage = { field: 2, message: 3, enum: 4 };

function messagePath(message: DescMessage): number[] {
  const { parent } = message;
  return parent === undefined
    ? [inFile.message, message.file.proto.messageType.indexOf(message.proto)]
    : [...messagePath(parent), inMessage.message, parent.proto.nestedType.indexOf(message.proto)];
}

function enumPath(enumeration: DescEnum): number[] {
  const { parent } = enumeration;
  return parent === undefined
    ? [inFile.enum, enumeration.file.proto.enumType.indexOf(enumeration.proto)]
    : [...messagePath(parent), inMessage.enum, parent.proto.enumType.indexOf(enumeration.proto)];
}

function fieldPath(field: DescField): number[] {
  return [...messagePath(field.parent), inMessage.field, field.parent.proto.field.indexOf(field.proto)];
}
