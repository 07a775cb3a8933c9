import { useMemo } from "preact/hooks";
import type { MidSample } from "../books/book-store.js";

const width = 144;
const height = 28;
const samplesMax = 120;

/** A small drawing of the newest mid prices, about two minutes of them. It says nothing that text beside it does not. */
export function Sparkline({ mids }: { readonly mids: readonly MidSample[] }) {
  // The samples of a second are one.
  const second = Math.floor((mids.at(-1)?.atMs ?? 0) / 1_000);
  return useMemo(() => draw(mids), [mids, second]);
}

function draw(mids: readonly MidSample[]) {
  const shown = mids.slice(-samplesMax);
  const first = shown.find(({ midTwice }) => midTwice !== undefined)?.midTwice;
  if (first === undefined) return <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} aria-hidden="true" />;
  const offsets = shown.map(({ midTwice }) => (midTwice === undefined ? undefined : Number(midTwice - first)));
  const known = offsets.filter((offset) => offset !== undefined);
  const low = Math.min(...known);
  const range = Math.max(...known) - low || 1;
  const lines: string[][] = [[]];
  for (const [index, offset] of offsets.entries()) {
    const x = shown.length === 1 ? width : (index / (shown.length - 1)) * width;
    if (offset === undefined) lines.push([]);
    else lines.at(-1)?.push(`${x.toFixed(1)},${(height - 2 - ((offset - low) / range) * (height - 4)).toFixed(1)}`);
  }
  const trend = (known.at(-1) ?? 0) < 0 ? "down" : "up";
  return (
    <svg class="sparkline" data-trend={trend} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      {lines.map((points, index) => (
        <polyline key={index} points={points.join(" ")} />
      ))}
    </svg>
  );
}
