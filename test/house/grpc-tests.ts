import { readdirSync } from "node:fs";
import { join } from "node:path";
import { importsOf, readSource, root } from "./sources.js";

/** What serves: a server in the test's own process, or the command in one of its own. */
const servers = ["src/transport/server.ts", "bin/marketd"];

/** What speaks plain gRPC: the libraries, the program, or bytes that a test writes itself. */
const grpcClient = /"@grpc\/grpc-js"|\bcreateGrpcTransport\b|partnerProgram\("grpcurl"\)|application\/grpc(?!-web)/;

/** Paths, from the repository's folder, of the test files that start a service and speak plain gRPC to it. */
export function grpcTests(): string[] {
  const sources = ["src", "test"].flatMap(typescriptUnder);
  const uses = sources.flatMap((from) => usedBy(from).map((to) => ({ from, to })));
  const serving = usersOf(new Set(servers), uses);
  const tests = sources.filter((path) => path.startsWith("test/"));
  const speaking = usersOf(new Set(tests.filter((path) => grpcClient.test(readSource(path)))), uses);
  return tests.filter((path) => path.endsWith(".test.ts") && serving.has(path) && speaking.has(path)).sort();
}

interface Use {
  readonly from: string;
  readonly to: string;
}

/** With all that use them, or use what uses them. */
function usersOf(used: Set<string>, uses: readonly Use[]): Set<string> {
  for (let before = 0; before < used.size; ) {
    before = used.size;
    for (const { from, to } of uses) if (used.has(to)) used.add(from);
  }
  return used;
}

function usedBy(path: string): string[] {
  const imported = importsOf(path).filter(({ ours }) => ours);
  const started = /new URL\("[./]*(bin\/marketd)"/.exec(readSource(path))?.slice(1) ?? [];
  return [...imported.map(({ to }) => to), ...started];
}

function typescriptUnder(folder: string): string[] {
  const files = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
  return files.filter((file) => file.endsWith(".ts")).map((file) => `${folder}/${file}`);
}
