import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  createFileRegistry,
  type DescEnum,
  type DescEnumValue,
  type DescField,
  type DescFile,
  type DescMessage,
  type DescMethod,
  type DescService,
  type FileRegistry,
  fromBinary,
} from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";

/** The directory of the project. */
export const root = fileURLToPath(new URL("../../", import.meta.url));

/** What proto/ says, built now, with comments. */
export function buildDefinitions(): FileRegistry {
  const buf = join(root, "node_modules/.bin/buf");
  const bytes = execFileSync(buf, ["build", "--as-file-descriptor-set", "-o", "-"], { cwd: root });
  return createFileRegistry(fromBinary(FileDescriptorSetSchema, bytes));
}

/** The services whose methods have URLs, in the order of their documentation. */
export function servicesOf(definitions: FileRegistry): DescService[] {
  return ["datanode.api.v2.TradingDataService", "marketd.history.v1.MarketHistoryService"].map((name) => {
    const service = definitions.getService(name);
    if (service === undefined) throw new Error(`the definitions have no ${name}`);
    return service;
  });
}

/** The messages of error details, and the body that holds them. */
export function errorMessages(definitions: FileRegistry): DescMessage[] {
  return ["Status", "BadRequest", "ErrorInfo", "RetryInfo"].map((name) => {
    const message = definitions.getMessage(`google.rpc.${name}`);
    if (message === undefined) throw new Error(`the definitions have no google.rpc.${name}`);
    return message;
  });
}

/** These messages and all messages and enums in their fields, in the order in which they are reached. */
export function reachable(roots: readonly DescMessage[]): Set<DescMessage | DescEnum> {
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
  for (const message of roots) visit(message);
  return reached;
}

export function isWellKnown(desc: DescMessage | DescEnum): boolean {
  return desc.file.proto.package === "google.protobuf";
}

/** The name without its package, so that nested types keep the name of what they are in. */
export function title(desc: DescMessage | DescEnum): string {
  return desc.typeName.slice(desc.file.proto.package.length + 1);
}

/** A declaration that has a comment. */
export type Commented = DescEnum | DescEnumValue | DescMessage | DescField | DescService | DescMethod;

/** The comments of a file by the places of their declarations. */
const commentsOf = new WeakMap<DescFile, ReadonlyMap<string, string>>();

/** The comment above a declaration, without its indentation. Lines end as in the definitions. */
export function commentOf(desc: Commented): string {
  const { file } = desc.kind === "enum_value" || desc.kind === "field" || desc.kind === "rpc" ? desc.parent : desc;
  let comments = commentsOf.get(file);
  if (comments === undefined) {
    const locations = file.proto.sourceCodeInfo?.location ?? [];
    comments = new Map(locations.map(({ path, leadingComments }) => [path.join(), leadingComments]));
    commentsOf.set(file, comments);
  }
  const lines = comments.get(pathOf(desc).join())?.split("\n") ?? [];
  return lines
    .map((line) => line.trim())
    .join("\n")
    .trim();
}

// Places in a FileDescriptorProto, by the numbers of its fields.
const inFile = { message: 4, enum: 5, service: 6 };
const inMessage = { field: 2, message: 3, enum: 4 };
const inEnum = { value: 2 };
const inService = { method: 2 };

function pathOf(desc: Commented): number[] {
  switch (desc.kind) {
    case "message":
      return desc.parent === undefined
        ? [inFile.message, desc.file.proto.messageType.indexOf(desc.proto)]
        : [...pathOf(desc.parent), inMessage.message, desc.parent.proto.nestedType.indexOf(desc.proto)];
    case "enum":
      return desc.parent === undefined
        ? [inFile.enum, desc.file.proto.enumType.indexOf(desc.proto)]
        : [...pathOf(desc.parent), inMessage.enum, desc.parent.proto.enumType.indexOf(desc.proto)];
    case "field":
      return [...pathOf(desc.parent), inMessage.field, desc.parent.proto.field.indexOf(desc.proto)];
    case "enum_value":
      return [...pathOf(desc.parent), inEnum.value, desc.parent.proto.value.indexOf(desc.proto)];
    case "service":
      return [inFile.service, desc.file.proto.service.indexOf(desc.proto)];
    case "rpc":
      return [...pathOf(desc.parent), inService.method, desc.parent.proto.method.indexOf(desc.proto)];
  }
}
