import { describe, expect, test } from "vitest";
import { readSource, trackedFiles, withoutComments } from "./sources.js";

/*
 * Names that this project does not use, because the field has a standard term. The first table holds words of
 * identifiers, file names, flags and metrics; the second holds phrases of comments, messages and documents.
 */

/** A word, what to use instead, and the files in which it is the standard term. */
const names: readonly (readonly [words: string, use: string, except?: RegExp])[] = [
  ["lane lanes", "handler, fast path", /^test\/store\/previous-program/], // a setting of the release before
  ["door doors", "protocol, client"],
  ["house houses", "architecture"],
  ["room rooms", "module; capacity"],
  ["answer answers answering", "response, reply; respond, serve"],
  ["form forms", "encoding, format, variant", /^(web\/|test\/e2e\/explorer|test\/support\/polling)/], // HTML forms
  ["cell cells", "counter, timing", /^(harness\/support\/report|src\/terminal\/ladder)/], // of a printed table
  ["begun", "started"],
  ["beginner beginners", "new subscribers"],
  ["stretch stretches", "id range"],
  ["walk walks walked walker", "scan, read all pages"],
  ["gather gathers gathered", "index union; collect"],
  ["crowd crowds crowded", "dense; scarce; group"],
  [
    "tick ticks",
    "block update",
    /^((src|test)\/simulator\/|bench\/pages|web\/components\/chart-axis|.*(http1-connection|connections\/exchange))/,
  ], // prices, CPU time, an axis, process.nextTick
  ["owe owed owes owing", "pending"],
  ["look looks looked", "poll, check, peek"],
  ["tidings", "notification"],
  ["whereabouts", "location"],
  ["trouble troubles", "failure, fault"],
  ["home", "owner", /^test\/(support\/partners|transport\/connect\/reflection-health|e2e\/proxy-process)/], // os.homedir, $HOME
  ["lend lends lent", "lease, leased"],
  ["whoever whom", "the client, the reader"],
];

/** A phrase, what to write instead, and the files in which it is right. */
const phrases: readonly (readonly [phrase: RegExp, use: string, except?: RegExp])[] = [
  [/\b(grpc|http|fast|slow|express)[ -]lanes?\b/i, "handler, fast path"],
  [/\b(front|back|every|each|same|other) doors?\b/i, "protocol, client"],
  [/\brooms?\b/i, "module; capacity"],
  [/\b(an|the|its|this|each|every|no|hot|earlier|unread|depth|whole) answers?\b/i, "response"],
  [/\bhot (response|answer)s?\b/i, "cached response"],
  [/\bbegun\b/i, "started"],
  [/\bbeginners\b/i, "new subscribers"],
  [/\bat hand\b/i, "cached, available"],
  [/\bstretch(es|ed)?\b/i, "id range, part", /\.css$/], // a value of CSS
  [/(?<!random )\bwalk(s|ed|ing)?\b/i, "scan, page through"],
  [/\bgather(s|ed|ing)?\b/i, "collect, bundle, index union"],
  [/\bcrowd(s|ed)?\b/i, "dense; scarce; group"],
  [/\bow(e|ed|es|ing)\b/i, "pending"],
  [/\btail looks\b/i, "the tail polls"],
  [/\b(tidings|whereabouts|troubles?)\b/i, "notification, location, failure"],
  [/\ba tag\b|\btags? \(`ETag`\)/i, "ETag", /^(proto|gen|clients\/go\/gen|src\/(encoding|loader|simulator))\//], // protobuf's tags
  [/\bwhoever\b|\bwhom\b|\bthose who\b|\bwho would\b|\bwho reads slowly\b/i, "the client, a reader, clients that"],
];

const files = trackedFiles().filter((path) =>
  /^((src|test|harness|bench|web|clients|scripts|examples|docs|proto\/(datanode|vega))\/|[A-Z]+\.md$|\.ci\/)/.test(
    path,
  ),
);
const texts = files.filter(
  (path) => !/\.(binpb|sum|svg|json)$|^test\/(architecture\/words|golden\/wire\.txt)/.test(path),
);
const code = texts.filter((path) => /\.(tsx?|mjs)$/.test(path) && !path.includes("/gen/"));

/** The words of a name in camelCase, snake_case, kebab-case or CONSTANT_CASE, in lower case. */
function wordsOf(name: string): string[] {
  return (name.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g) ?? []).map((word) => word.toLowerCase());
}

/** Source without comments, string literals and regular expressions; what a template inserts stays. */
function withoutTexts(source: string): string {
  return withoutComments(source)
    .replace(/"(?:\\.|[^"\\\n])*"/g, '""')
    .replace(/(?<=[(,=:[!&|?]\s*)\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*/g, '""')
    .replace(/`(?:\\.|[^`\\])*`/g, (template) => (template.match(/\$\{[^}]*\}/g) ?? []).join(" "));
}

/** Identifiers of a source, flags and metrics that it names, and its path. */
function namesIn(path: string): string[] {
  const source = readSource(path);
  const published = source.match(/--[a-z][a-z-]+|\bmarketd_[a-z_]+|\bMARKETD_[A-Z_]+/g) ?? [];
  const identifiers = code.includes(path) ? (withoutTexts(source).match(/[A-Za-z_$][\w$]*/g) ?? []) : [];
  return [path, ...published, ...identifiers];
}

describe("the sources use the field's terms", () => {
  test("in identifiers, file names, flags and metrics", () => {
    const banned = new Map(
      names.flatMap(([words, use, except]) => words.split(" ").map((word) => [word, { use, except }] as const)),
    );
    const found = texts.flatMap((path) =>
      [...new Set(namesIn(path))].flatMap((name) =>
        wordsOf(name).flatMap((word) => {
          const rule = banned.get(word);
          return rule === undefined || rule.except?.test(path) ? [] : [`${path}: ${name}: not "${word}": ${rule.use}`];
        }),
      ),
    );
    expect(found).toEqual([]);
  });

  test("in comments, messages and documents", () => {
    const found = texts.flatMap((path) =>
      phrases
        .filter(([, , except]) => !except?.test(path))
        .flatMap(([phrase, use]) =>
          readSource(path)
            .split("\n")
            .flatMap((line, index) => (phrase.test(line) ? [`${path}:${index + 1}: ${line.trim()}: use ${use}`] : [])),
        ),
    );
    expect(found).toEqual([]);
  });

  test("and docs/architecture.md defines at most 25 more", () => {
    const [, glossary = ""] = readSource("docs/architecture.md").split("\n## Glossary\n");
    const terms = glossary
      .split("\n")
      .filter((line) => line.startsWith("| "))
      .slice(2);
    expect(terms.length).toBeGreaterThan(0);
    expect(terms.length).toBeLessThanOrEqual(25);
  });

  test("and a private term would be found", () => {
    expect(wordsOf("#grpcLane_at-HAND")).toEqual(["grpc", "lane", "at", "hand"]);
    const code = withoutTexts(`const answer = "lane"; // look\nsay(\`no \${door} room\`)`);
    expect(code.match(/answer|lane|look|door|room/g)).toEqual(["answer", "door"]);
  });
});
