import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createFileRegistry, type FileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";

/** The directory of the project. */
export const root = fileURLToPath(new URL("../../", import.meta.url));

/** What proto/ says, built now, with comments. */
export function buildDefinitions(): FileRegistry {
  const buf = join(root, "node_modules/.bin/buf");
  const bytes = execFileSync(buf, ["build", "--as-file-descriptor-set", "-o", "-"], { cwd: root });
  return createFileRegistry(fromBinary(FileDescriptorSetSchema, bytes));
}
