import fc from "fast-check";
import { expect, it } from "vitest";
import { FrameSplitter } from "../../src/loader/frames.js";
import { RecordingBuilder } from "../support/recording.js";

it("finds the same frames however the bytes were cut, also when the source uses its memory again", () => {
  const bodies = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 12 });
  fc.assert(
    fc.property(bodies, fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 }), (frames, sizes) => {
      const builder = new RecordingBuilder();
      for (const body of frames) builder.frame(body);
      const bytes = builder.bytes();
      const splitter = new FrameSplitter("x");
      const found: [bigint, string][] = [];
      for (let at = 0, i = 0; at < bytes.length; i++) {
        const size = sizes[i % sizes.length] ?? 1;
        const chunk = Buffer.from(bytes.subarray(at, at + size));
        for (const { sequence, body } of splitter.frames(chunk)) found.push([sequence, body.toString("hex")]);
        chunk.fill(0xee);
        at += size;
      }
      splitter.end();
      expect(found).toEqual(frames.map((body, index) => [BigInt(index + 1), Buffer.from(body).toString("hex")]));
    }),
    { numRuns: 500 },
  );
});
