/** An exact quantity or balance: a number up to 2^53, which is far cheaper than a bigint, otherwise a bigint. */
export type Amount = number | bigint;

/** Digits that always fit a number. */
export const digitsOfNumber = 15;

export function add(one: Amount, other: Amount): Amount {
  if (typeof one === "number" && typeof other === "number") {
    const sum = one + other;
    if (Number.isSafeInteger(sum)) return sum;
  }
  return BigInt(one) + BigInt(other);
}

export function isSame(one: Amount, other: Amount): boolean {
  return typeof one === typeof other ? one === other : BigInt(one) === BigInt(other);
}
