/**
 * Compares two prices as integers: negative, 0 or positive, as for `sort`. Prices are decimal text of up to 78 digits,
 * more than a double or a 64-bit number holds. So lengths are compared first, then digits.
 */
export function comparePrices(a: string, b: string): number {
  if (a === b) return 0;
  const left = significant(a);
  const right = significant(b);
  if (left.length !== right.length) return left.length - right.length;
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Without leading zeros, which are rare. */
function significant(price: string): string {
  if (price.charCodeAt(0) !== 0x30 || price.length === 1) return price;
  let start = 0;
  while (start < price.length - 1 && price.charCodeAt(start) === 0x30) start++;
  return price.slice(start);
}
