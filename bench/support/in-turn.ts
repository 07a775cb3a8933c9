// npm run bench -- NAME --against DIR [--turns N] [ARGUMENT...], for a bench that does not compare services itself.
// The bench of this checkout and that of the one in DIR, whole and in turn, both with the further arguments. DIR must have
// its benches built (npm run build -- --tools). Each turn runs both once, in alternating order; the change of a ratio is
// the median of the turns' quotients, ours over theirs.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

type Ratios = Readonly<Record<string, number>>;

const ownOptions = { against: { type: "string", default: "" }, turns: { type: "string", default: "11" } } as const;
const [name = "", ...given] = process.argv.slice(2);
const { values, tokens } = parseArgs({ args: given, options: ownOptions, strict: false, tokens: true });
const { against, turns } = { against: String(values.against), turns: Number(values.turns) };
const ownPlaces = tokens.flatMap((token) => {
  if (token.kind !== "option" || !(token.name in ownOptions)) return [];
  return token.inlineValue === false ? [token.index, token.index + 1] : [token.index];
});
const further = given.filter((_, place) => !ownPlaces.includes(place));

const ours = fileURLToPath(new URL("../../../", import.meta.url));
const theirs = resolve(against);

function programOf(folder: string): string {
  return join(folder, "dist", "bench", `${name}.js`);
}

/** Runs the bench of a checkout. @throws Error when it ends without its line of ratios */
async function run(folder: string): Promise<Ratios> {
  const child = spawn(process.execPath, [programOf(folder), ...further], {
    cwd: folder,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let printed = "";
  child.stdout.on("data", (text) => {
    printed += String(text);
  });
  const [code] = await once(child, "close");
  const last = printed.trimEnd().split("\n").at(-1) ?? "";
  if (code !== 0 || !last.startsWith("{")) throw new Error(`bench ${name} in ${folder} ended with ${code}: ${last}`);
  const { ratios }: { ratios: Ratios } = JSON.parse(last);
  return ratios;
}

function quantile(numbers: readonly number[], share: number): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.round((sorted.length - 1) * share)] ?? Number.NaN;
}

if (!existsSync(programOf(theirs))) {
  console.error(`--against ${against}: it has no ${programOf(theirs)}; build its benches: npm run build -- --tools`);
  process.exit(2);
}
const changes = new Map<string, number[]>();
for (let turn = 0; turn < turns; turn++) {
  const [first, second] = turn % 2 === 0 ? [ours, theirs] : [theirs, ours];
  const firstRatios = await run(first);
  const secondRatios = await run(second);
  const [our, their] = first === ours ? [firstRatios, secondRatios] : [secondRatios, firstRatios];
  for (const [ratio, value] of Object.entries(our)) {
    const other = their[ratio];
    if (other === undefined || !(other > 0)) continue;
    changes.set(ratio, [...(changes.get(ratio) ?? []), value / other]);
  }
  console.error(`turn ${turn + 1} of ${turns}`);
}

const rounded = (value: number) => Math.round(value * 1000) / 1000;
console.log(`\n${name}: ratios of this checkout over those of ${against}; above 1 is better`);
const rows = [...changes].map(([ratio, quotients]) => ({
  ratio,
  median: rounded(quantile(quotients, 0.5)),
  lowest: rounded(quantile(quotients, 0)),
  highest: rounded(quantile(quotients, 1)),
}));
console.table(rows);
const medians = Object.fromEntries(rows.map(({ ratio, median }) => [ratio, median]));
console.log(JSON.stringify({ name: `${name} in turn`, ratios: medians }));
