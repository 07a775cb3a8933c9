import type { DescEnum, DescField, DescFile, DescMessage, DescMethod, DescService } from "@bufbuild/protobuf";
import { getOption, hasOption, ScalarType } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { http } from "../../gen/google/api/annotations_pb.js";
import type { HttpRule } from "../../gen/google/api/http_pb.js";

/**
 * Everything a client on the wire or in JSON depends on, as text, one fact per line, ordered by name and number so that
 * moving a declaration changes nothing: rpcs with their streaming, URLs and idempotency; fields with number, type,
 * label, packing and JSON name; enum values with number; extensions.
 */
export function wireTable(files: Iterable<DescFile>): string {
  const blocks: string[][] = [];
  for (const file of files) {
    for (const service of file.services) blocks.push(serviceBlock(service));
    for (const message of file.messages) blocks.push(...messageBlocks(message));
    for (const enumeration of file.enums) blocks.push(enumBlock(enumeration));
    for (const extension of file.extensions) {
      blocks.push([`extension ${extension.typeName} of ${extension.extendee.typeName}`, `  ${fieldLine(extension)}`]);
    }
  }
  blocks.sort((a, b) => (a.join("\n") < b.join("\n") ? -1 : 1));
  return blocks.map((block) => `${block.join("\n")}\n`).join("\n");
}

function serviceBlock(service: DescService): string[] {
  return [`service ${service.typeName}`, ...service.methods.map((method) => `  ${methodLine(method)}`).sort()];
}

function methodLine(method: DescMethod): string {
  const idempotency = MethodOptions_IdempotencyLevel[method.idempotency] ?? String(method.idempotency);
  const urls = hasOption(method, http) ? ruleUrls(getOption(method, http)) : [];
  return [
    `rpc ${method.name}(${method.input.typeName}) returns (${method.output.typeName})`,
    method.methodKind,
    idempotency.toLowerCase(),
    ...urls,
  ].join("; ");
}

function ruleUrls(rule: HttpRule): string[] {
  const { pattern } = rule;
  const own =
    pattern.case === "custom" ? `${pattern.value.kind} ${pattern.value.path}` : `${pattern.case} ${pattern.value}`;
  return [own, ...rule.additionalBindings.flatMap(ruleUrls)];
}

function messageBlocks(message: DescMessage): string[][] {
  const fields = [...message.fields].sort((a, b) => a.number - b.number);
  return [
    [`message ${message.typeName}`, ...reservedLines(message), ...fields.map((field) => `  ${fieldLine(field)}`)],
    ...message.nestedMessages.flatMap(messageBlocks),
    ...message.nestedEnums.map(enumBlock),
  ];
}

function reservedLines({ proto }: DescMessage): string[] {
  const numbers = proto.reservedRange.map((range) => `  reserved ${range.start} to ${range.end - 1}`);
  return [...numbers, ...proto.reservedName.map((name) => `  reserved ${name}`)];
}

function enumBlock(enumeration: DescEnum): string[] {
  const values = [...enumeration.values].sort((a, b) => a.number - b.number);
  return [`enum ${enumeration.typeName}`, ...values.map((value) => `  ${value.number} ${value.name}`)];
}

function fieldLine(field: Field): string {
  return `${field.number} ${field.name}: ${fieldLabel(field)} ${fieldType(field)}, json ${field.jsonName}`;
}

type Field = DescField | DescFile["extensions"][number];

/** `singular`, `optional` (presence is told apart from the zero value), `repeated`, `map`, or `oneof:NAME`. */
function fieldLabel(field: Field): string {
  if (field.fieldKind === "list") return field.packed ? "repeated packed" : "repeated";
  if (field.fieldKind === "map") return "map";
  if (field.oneof !== undefined) return `oneof:${field.oneof.name}`;
  return field.proto.proto3Optional ? "optional" : "singular";
}

function fieldType(field: Field): string {
  if (field.fieldKind === "map") return `<${scalarName(field.mapKey)}, ${valueType(field)}>`;
  return valueType(field);
}

function valueType(field: Field): string {
  const named = field.message ?? field.enum;
  if (named !== undefined) return named.typeName;
  return field.scalar === undefined ? "?" : scalarName(field.scalar);
}

function scalarName(scalar: ScalarType): string {
  return ScalarType[scalar].toLowerCase();
}
