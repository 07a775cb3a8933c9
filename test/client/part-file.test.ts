import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PartFile } from "../../src/client/part-file.js";

const header = "vega_time,quantity\r\n";
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "marketd-part-"));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

const path = () => join(folder, "file");
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const timeOf = (second: number) => `2023-01-18T01:09:${String(second).padStart(2, "0")}.425088123Z`;
const rowOf = (second: number, text: string) => `${timeOf(second)},${text}\r\n`;

/** Rows of a slice: seconds that never decrease, and what is in a row. */
const slice = fc
  .array(fc.tuple(fc.nat({ max: 5 }), fc.stringMatching(/^[a-z,:-]{0,12}$/)), { maxLength: 12 })
  .map((rows) => rows.sort(([a], [b]) => a - b));

/** The text of a slice that begins at a second, and what its last rows are. */
function sliceText(rows: readonly (readonly [number, string])[], firstSecond: number) {
  const lines = rows.map(([second, rest]) => rowOf(firstSecond + second, rest));
  const last = rows.at(-1)?.[0];
  if (last === undefined) return { text: "", lastRows: undefined };
  const tail = lines.slice(rows.findIndex(([second]) => second === last)).join("");
  const lastRows = { time: timeOf(firstSecond + last), bytes: tail.length, sha256: sha256(tail) };
  return { text: lines.join(""), lastRows };
}

describe("a file that grows by slices", () => {
  it("keeps what was kept, drops the rest, and finds the last rows of each slice", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(slice, fc.boolean()), { maxLength: 8 }), async (slices) => {
        const part = await PartFile.create(path());
        let kept = "";
        for (const [n, [rows, isKept]] of slices.entries()) {
          const { text, lastRows } = sliceText(rows, 6 * n);
          const piece = (kept === "" ? header : "") + text;
          await part.append(Buffer.from(piece.slice(0, 25)));
          await part.append(Buffer.from(piece.slice(25)));
          expect(await part.lastRows()).toEqual(lastRows);
          if (isKept) {
            part.keep();
            kept += piece;
          } else await part.drop();
          expect([part.bytes, part.sha256]).toEqual([kept.length, sha256(kept)]);
        }
        await part.finish(join(folder, "whole"), true);
        await part.close();
        expect(readFileSync(join(folder, "whole"), "utf8")).toBe(kept);
      }),
      { numRuns: 100 },
    );
  });

  it.each([10, 20_000, 60_000])("finds %i last rows of a long slice", async (count) => {
    const part = await PartFile.create(path());
    const tail = Array.from({ length: count }, (_, n) => rowOf(9, `row ${n} of some length`)).join("");
    await part.append(Buffer.from(header + rowOf(8, "before") + tail));
    expect(await part.lastRows()).toEqual({ time: timeOf(9), bytes: tail.length, sha256: sha256(tail) });
    await part.close();
  });

  it("goes on from the bytes that it had, if they are the same", async () => {
    writeFileSync(path(), "kept and more");
    expect(await PartFile.resume(path(), 4, sha256("kepT"))).toBeUndefined();
    expect(await PartFile.resume(path(), 400, sha256("kept"))).toBeUndefined();
    expect(await PartFile.resume(join(folder, "none"), 0, sha256(""))).toBeUndefined();
    const part = await PartFile.resume(path(), 4, sha256("kept"));
    await part?.append(Buffer.from(" on"));
    expect([part?.bytes, part?.sha256]).toEqual([7, sha256("kept on")]);
    await part?.finish(join(folder, "whole"), true);
    await part?.close();
    expect(readFileSync(join(folder, "whole"), "utf8")).toBe("kept on");
  });

  it("gets no name when someone else has written to it", async () => {
    const part = await PartFile.create(path());
    await part.append(Buffer.from("mine"));
    writeFileSync(path(), "their");
    await expect(part.finish(join(folder, "whole"), true)).rejects.toThrow(/was changed while it was written/);
    await part.close();
    expect(readdirSync(folder)).toEqual(["file"]);
  });

  it("names another export as what may have given it its name", async () => {
    const [mine, theirs] = [await PartFile.create(path()), await PartFile.create(path())];
    await theirs.finish(join(folder, "whole"), true);
    await expect(mine.finish(join(folder, "whole"), true)).rejects.toThrow(
      /file is gone: see what removes it, or whether another export writes to .*whole, and export again/,
    );
    for (const part of [mine, theirs]) await part.close();
  });

  it("leaves nothing under its name when someone has removed it", async () => {
    const part = await PartFile.create(path());
    rmSync(path());
    await expect(part.finish(join(folder, "whole"), false)).rejects.toThrow(/file is gone: see what removes it/);
    await part.close();
    expect(readdirSync(folder)).toEqual([]);
  });

  it("replaces another file only if it may", async () => {
    writeFileSync(join(folder, "whole"), "theirs");
    const part = await PartFile.create(path());
    await part.append(Buffer.from("mine"));
    await expect(part.finish(join(folder, "whole"), false)).rejects.toThrow(/whole exists; replace it with --force/);
    expect(readFileSync(join(folder, "whole"), "utf8")).toBe("theirs");
    await part.finish(join(folder, "free"), false);
    expect(readFileSync(join(folder, "free"), "utf8")).toBe("mine");
    await part.close();
  });

  it("without a path hands its bytes on, and goes on after them", async () => {
    const part = await PartFile.create(undefined);
    const out: Buffer[] = [];
    for (const text of ["a".repeat(3_000_000), "b", ""]) {
      await part.append(Buffer.from(text));
      part.keep();
      await part.append(Buffer.from("not kept"));
      await part.drop();
      await part.handOn(async (bytes) => {
        out.push(Buffer.from(bytes));
      });
    }
    const expected = `${"a".repeat(3_000_000)}b`;
    expect(Buffer.concat(out).toString()).toBe(expected);
    expect([part.bytes, part.sha256]).toEqual([expected.length, sha256(expected)]);
    await part.close();
  });
});
