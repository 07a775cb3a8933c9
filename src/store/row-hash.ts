import { hash } from "node:crypto";
import type { Parameter } from "./driver-connection.js";
import { rowText } from "./table-rows.js";

/** Hashes and their sums are numbers below this prime, 2^127 - 1: so a sum can be divided by another. */
export const hashPrime = (1n << 127n) - 1n;

/** The hash of a row of a table. */
export function rowHash(table: string, values: readonly Parameter[]): bigint {
  const digest = hash("sha256", `${table}\n${rowText(values)}`, "buffer");
  return ((digest.readBigUInt64BE(0) << 64n) | digest.readBigUInt64BE(8)) % hashPrime;
}

/** What a set of rows adds up to; its order does not matter. */
export interface RowSum {
  readonly rows: bigint;
  /** Of the hashes. */
  readonly sum: bigint;
  /** Of the hashes, each times the place of its row: tells where a single wrong row belongs. */
  readonly placeSum: bigint;
}

export const noRows: RowSum = { rows: 0n, sum: 0n, placeSum: 0n };

/** The sum with one more row, or with `times` -1 one less. */
export function addRow({ rows, sum, placeSum }: RowSum, hashed: bigint, place: bigint, times: 1n | -1n = 1n): RowSum {
  return {
    rows: rows + times,
    sum: positive(sum + times * hashed),
    placeSum: positive(placeSum + times * hashed * place),
  };
}

/** The place of the one row by which two sums differ; undefined: there is none, or they differ by more than that. */
export function placeOfDifference(one: RowSum, other: RowSum, placeMax: bigint): bigint | undefined {
  const difference = positive(one.sum - other.sum);
  if (difference === 0n) return undefined;
  const place = (positive(one.placeSum - other.placeSum) * power(difference, hashPrime - 2n)) % hashPrime;
  return place > 0n && place <= placeMax ? place : undefined;
}

function positive(value: bigint): bigint {
  const rest = value % hashPrime;
  return rest < 0n ? rest + hashPrime : rest;
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  for (let square = base, rest = exponent; rest > 0n; rest >>= 1n, square = (square * square) % hashPrime) {
    if ((rest & 1n) === 1n) result = (result * square) % hashPrime;
  }
  return result;
}
