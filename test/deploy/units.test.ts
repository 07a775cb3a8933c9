import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run } from "../clients/languages.js";
import { partnerProgram } from "../support/partners.js";
import { commandOf } from "./command-line.js";

/* The systemd units of deploy/. */

const root = fileURLToPath(new URL("../../", import.meta.url));
const units = ["serve", "load"];

/** systemd's figure for how exposed a service is, times ten: 0 is sealed, 100 open. */
const exposureMax = 20;

function unit(name: string): string {
  return readFileSync(join(root, `deploy/marketd-${name}.service`), "utf8");
}

/** The values of one setting, in order. */
function values(text: string, setting: string): string[] {
  return [...text.matchAll(new RegExp(`^${setting}=(.*)$`, "gm"))].map(([, value = ""]) => value);
}

test.each(units)("marketd-%s.service starts that command, with settings that it knows", async (name) => {
  const environment = Object.fromEntries(
    values(unit(name), "Environment").map((text) => {
      const [variable = "", value = ""] = text.split(/=(.*)/);
      return [variable, value];
    }),
  );
  const [program, ...args] = (values(unit(name), "ExecStart")[0] ?? "").split(" ");
  const plain = args.map((word) => word.replace(/^\$\{(.*)\}$/, (_, variable: string) => environment[variable] ?? ""));
  expect(program).toBe("marketd");
  expect(plain).not.toContain("");
  expect(await commandOf(plain, environment)).toBe(name);
});

const analyze = partnerProgram("systemdAnalyze") ?? "";

describe.skipIf(analyze === "")("systemd", () => {
  let folder = "";

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "marketd-units-"));
    for (const name of units) {
      // systemd wants the program to be there.
      const text = unit(name).replace("ExecStart=marketd", `ExecStart=${join(root, "bin/marketd")}`);
      writeFileSync(path(name), text);
    }
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  function path(name: string): string {
    return join(folder, `marketd-${name}.service`);
  }

  test.each(units)("finds nothing to say of marketd-%s.service", async (name) => {
    expect(await run([analyze, "verify", "--man=no", path(name)], folder)).toBe("");
  });

  test.each(units)("finds marketd-%s.service well sealed off", async (name) => {
    const args = ["security", "--offline=true", `--threshold=${exposureMax}`, "--no-pager", path(name)];
    expect(await run([analyze, ...args], folder)).toMatch(/Overall exposure level for .*: [01]\.[0-9] OK/);
  });
});
