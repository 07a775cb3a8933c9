import { existsSync } from "node:fs";
import { join } from "node:path";
import { importsOf, root, trackedFiles } from "../architecture/sources.js";

/** What gives a test a database. */
const databases = ["test/support/database.ts", "test/support/database-server.ts", "src/embedded/open-embedded.ts"];

/** Launches a browser: those tests look at a page over responses that other tests compare on every server. */
const browser = "test/e2e/browser-launch.ts";

/**
 * Tests of processes, signals, listeners, the package, metrics, client libraries, commands and what they write, venues'
 * feeds, or Kafka, which only need some database beside them: they ask another server nothing that other tests don't ask.
 * They run on it when they are named.
 */
const scenery = [
  "test/clients/",
  "test/connect/",
  "test/deploy/",
  "test/runtime/",
  "test/e2e/command.test.ts",
  "test/e2e/command-line.test.ts",
  "test/e2e/drain-polling.test.ts",
  "test/e2e/drain-workers.test.ts",
  "test/e2e/export",
  "test/e2e/package.test.ts",
  "test/e2e/watch.test.ts",
  "test/e2e/workers.test.ts",
  "test/loader/kafka",
  "test/venues/",
];

/** Whether this run is on another server than the machine's own, which the main run tests. */
export const isOtherServer = !["", "mariadb-10.11"].includes(process.env["MARKETD_TEST_DATABASE"] ?? "");

/**
 * The tests of a run on another database server than the machine's own (`npm test -- --database NAME`): those that
 * touch a database, by what they import, themselves or through other files of the tests.
 * @param args those of the command line: a path, or a part of one, names a file
 */
export function databaseTests(args: readonly string[] = process.argv.slice(3)): string[] {
  const known = new Map<string, ReadonlySet<string>>();
  const reachedFrom = (path: string): ReadonlySet<string> => {
    const found = known.get(path);
    if (found !== undefined) return found;
    const reached = new Set([path]);
    known.set(path, reached);
    if (!path.startsWith("test/") || !existsSync(join(root, path))) return reached;
    for (const { to, ours } of importsOf(path)) {
      if (ours) for (const each of reachedFrom(to)) reached.add(each);
    }
    return reached;
  };
  const tests = trackedFiles().filter((path) => path.startsWith("test/") && path.endsWith(".test.ts"));
  return tests.filter((path) => {
    const isScenery = scenery.some((start) => path.startsWith(start));
    if (isScenery && !args.some((arg) => path.includes(arg))) return false;
    const reached = reachedFrom(path);
    return databases.some((name) => reached.has(name)) && !reached.has(browser);
  });
}
