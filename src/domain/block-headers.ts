import type { Metadata } from "./metadata.js";

/** A block by its height and its time in Unix nanoseconds. */
export interface BlockHead {
  readonly height: bigint;
  readonly timeNs: bigint;
}

/** The metadata of a response that was read at this block. */
export function blockMetadata(block: BlockHead | undefined): Metadata {
  return { headers: new Map(Object.entries(blockHeaders(block))), trailers: new Map() };
}

/** The names of {@link blockHeaders}. */
export const blockHeaderNames = ["x-block-height", "x-block-timestamp"] as const;

/** Response headers that name the block of a response; none before the first block. Values are decimal. */
export function blockHeaders(block: BlockHead | undefined): Readonly<Record<string, string>> {
  if (block === undefined) return {};
  return { "x-block-height": String(block.height), "x-block-timestamp": String(block.timeNs) };
}

/** Response headers that tell how new the data is: the newest block, and its age in whole seconds. */
export function dataHeaders(
  block: BlockHead | undefined,
  ageSeconds: number | undefined,
): Readonly<Record<string, string>> {
  const staleness = ageSeconds === undefined ? {} : { "marketd-staleness": String(Math.floor(ageSeconds)) };
  return { ...staleness, ...blockHeaders(block) };
}

/** The block that the headers of a response name; undefined unless both are unsigned integers of 64 bits. */
export function blockHeadOf(height: string | null, timeNs: string | null): BlockHead | undefined {
  const isInteger = (text: string | null): text is string => text !== null && /^[0-9]{1,19}$/.test(text);
  return isInteger(height) && isInteger(timeNs) ? { height: BigInt(height), timeNs: BigInt(timeNs) } : undefined;
}
