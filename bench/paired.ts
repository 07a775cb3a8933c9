// npm run bench -- paired --against DIR --name NAME [--rounds N] [-- ARGUMENT...]
// Another bench of this checkout and of the one in DIR, in turn: how its ratios have changed. DIR must have its benches
// built (npm run build -- --tools). Each round runs both once, in alternating order; the change of a ratio is the median
// of the rounds' quotients, ours over theirs.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

type Ratios = Readonly<Record<string, number>>;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { against: { type: "string" }, name: { type: "string" }, rounds: { type: "string", default: "11" } },
});
const { against, name } = values;
if (against === undefined || name === undefined || !existsSync(join(against, "dist", "bench", `${name}.js`))) {
  console.error(
    "usage: npm run bench -- paired --against DIR --name NAME [--rounds N] [-- ARGUMENT...]\n" +
      "Build the benches of DIR first: npm run build -- --tools",
  );
  process.exit(2);
}

const ours = fileURLToPath(new URL("../../", import.meta.url));
const theirs = resolve(against);

/** Runs the bench of a checkout. @throws Error when it ends without its line of ratios */
async function run(folder: string): Promise<Ratios> {
  const child = spawn(process.execPath, [join(folder, "dist", "bench", `${name}.js`), ...positionals], {
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

const changes = new Map<string, number[]>();
for (let round = 0; round < Number(values.rounds); round++) {
  const [first, second] = round % 2 === 0 ? [ours, theirs] : [theirs, ours];
  const firstRatios = await run(first);
  const secondRatios = await run(second);
  const [our, their] = first === ours ? [firstRatios, secondRatios] : [secondRatios, firstRatios];
  for (const [ratio, value] of Object.entries(our)) {
    const other = their[ratio];
    if (other === undefined || !(other > 0)) continue;
    changes.set(ratio, [...(changes.get(ratio) ?? []), value / other]);
  }
  console.error(`round ${round + 1} of ${values.rounds}`);
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
console.log(JSON.stringify({ name: `paired ${name}`, ratios: medians }));
