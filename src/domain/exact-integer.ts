/** An exact integer: a number where it is safe, which is far cheaper; otherwise a bigint. Equal ones are `===`. */
export type Integer = number | bigint;

const safeMax = BigInt(Number.MAX_SAFE_INTEGER);

/** Decimal digits that a safe number always holds. */
export const safeDigits = 15;

export function toInteger(value: bigint): Integer {
  return value <= safeMax && value >= -safeMax ? Number(value) : value;
}

export function add(one: Integer, other: Integer): Integer {
  if (typeof one === "number" && typeof other === "number") {
    const sum = one + other;
    if (Number.isSafeInteger(sum)) return sum;
  }
  return toInteger(BigInt(one) + BigInt(other));
}
