import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Failure } from "../../src/domain/failure.js";
import {
  parseResumeToken,
  ResumeTokens,
  readResumeToken,
  resumeTokenLength,
  selectionHash,
  storeHash,
} from "../../src/domain/resume-token.js";

const hash = fc.uint8Array({ minLength: 8, maxLength: 8 });
const place = fc.record({
  kind: fc.constantFrom("live" as const, "past" as const),
  streamSequence: fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
});

describe("a resume token", () => {
  test("is read as it was written, by its own store only", () => {
    fc.assert(
      fc.property(hash, hash, hash, place, (store, other, selection, { kind, streamSequence }) => {
        const token = new ResumeTokens(store, selection).at(kind, streamSequence);
        expect(token).toMatch(/^[\w-]{1,64}$/);
        expect(token).toHaveLength(resumeTokenLength);
        const read = readResumeToken("resume_token", token, store);
        expect([read.kind, read.streamSequence, [...read.selection]]).toEqual([kind, streamSequence, [...selection]]);
        if (Buffer.from(other).equals(Buffer.from(store))) return;
        expect(() => readResumeToken("resume_token", token, other)).toThrow(
          expect.objectContaining({ code: "failed_precondition", reason: "CHAIN_CHANGED", voidsPlaces: true }),
        );
      }),
    );
  });

  test("is refused with any character changed, added or left out", () => {
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=.";
    const change = fc.record({ at: fc.nat(resumeTokenLength - 1), to: fc.constantFrom(...alphabet), cut: fc.nat(2) });
    fc.assert(
      fc.property(hash, hash, place, change, (store, selection, { kind, streamSequence }, { at, to, cut }) => {
        const token = new ResumeTokens(store, selection).at(kind, streamSequence);
        const changed = token.slice(0, at) + to + token.slice(at + cut);
        if (changed !== token) expect(parseResumeToken(changed)).toBeUndefined();
      }),
    );
    expect(() => readResumeToken("resume_token", "no token", Buffer.alloc(8))).toThrow(Failure);
  });

  test("names markets in any order, and a store apart from the same chain in another", () => {
    expect(selectionHash(["b", "a", "b"])).toEqual(selectionHash(["a", "b"]));
    expect(selectionHash([])).not.toEqual(selectionHash(["a"]));
    expect(selectionHash(["a,b"])).not.toEqual(selectionHash(["a", "b"]));
    expect(storeHash("chain", "one")).not.toEqual(storeHash("chain", "two"));
  });
});
