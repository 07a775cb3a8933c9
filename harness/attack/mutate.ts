import type { Random } from "../../src/simulator/random.js";

/** Pieces that have a meaning to some parser. */
const dictionary = [
  "\r\n",
  "\n",
  "\0",
  "\r\n\r\n",
  "%",
  "%00",
  "%ff",
  "%2F",
  "%C0%AF",
  "..",
  "//",
  "?",
  "&",
  "=",
  ";",
  "#",
  "[",
  "]",
  '"',
  "\\u0000",
  "-1",
  "0",
  "1e9",
  "18446744073709551616",
  "9223372036854775808",
  "4294967296",
  "NaN",
  "true",
  "null",
  "{}",
  "[[[[[[[[",
  "*",
  "Transfer-Encoding: chunked\r\n",
  "Content-Length: 5\r\n",
  "Content-Length: 18446744073709551616\r\n",
  "Connection: Upgrade\r\nUpgrade: websocket\r\n",
  "Connection: close\r\n",
  "Expect: 100-continue\r\n",
  "Expect: something\r\n",
  "Accept: text/csv\r\n",
  "Accept-Encoding: gzip;q=0, br;q=2\r\n",
  "If-None-Match: *\r\n",
  "Origin: null\r\n",
  "X-Forwarded-For: ::1, unknown\r\n",
  "pagination.first=5000",
  "pagination.after=",
  "dateRange.startTimestamp=",
  "filter.transferTypes=",
  "alt=sse",
  "alt=media",
  "maxDepth=",
] as const;

const mutationsMax = 4;

/** The same bytes with one to four random changes. */
export function mutate(bytes: Uint8Array, random: Random): Buffer {
  let changed: Buffer = Buffer.from(bytes);
  for (let n = random.between(1, mutationsMax); n > 0; n--) changed = mutateOnce(changed, random);
  return changed;
}

function mutateOnce(bytes: Buffer, random: Random): Buffer {
  const at = random.below(bytes.length + 1);
  const length = 1 + random.below(8);
  switch (random.below(6)) {
    case 0: {
      const flipped = Buffer.from(bytes);
      if (at < flipped.length) flipped[at] = (flipped[at] ?? 0) ^ (1 << random.below(8));
      return flipped;
    }
    case 1:
      return splice(bytes, at, 1, Buffer.from([random.below(256)]));
    case 2:
      return splice(bytes, at, 0, Buffer.from(random.bytes(length)));
    case 3:
      return splice(bytes, at, length, Buffer.alloc(0));
    case 4:
      return splice(bytes, at, 0, bytes.subarray(at, at + length * 4));
    default:
      return splice(bytes, at, random.chance(0.5) ? 0 : length, Buffer.from(random.pick(dictionary), "latin1"));
  }
}

function splice(bytes: Buffer, at: number, removed: number, inserted: Uint8Array): Buffer {
  return Buffer.concat([bytes.subarray(0, at), inserted, bytes.subarray(at + removed)]);
}
