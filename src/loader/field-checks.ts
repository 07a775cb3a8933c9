import { identifierProblem } from "../domain/identifier.js";
import { RecordingError } from "./recording-error.js";

/** The maximum number of digits of a quantity: those of {@link quantityMax}. */
export const digitsMax = 78;

/** The highest quantity: 256 bits. */
export const quantityMax = `${(1n << 256n) - 1n}`;

/** The longest decimal fraction with sign and point, in characters. Usually they have about 20. */
export const fractionLengthMax = 160;

/** The most decimals of prices and sizes: the finest units of real markets have 18. */
export const decimalsMax = 30;

/** The most decimals of an asset: an ERC20 token states them in a byte. */
export const assetDecimalsMax = 255n;

/** The longest name, code, tag or other text of a market or an asset, in characters. */
export const textLengthMax = 1_024;

/** The most tags of a market. */
export const tagsMax = 100;

/** The latest block time, in Unix nanoseconds, in the year 2116. Sums with it stay within 63 bits. */
export const blockTimeNsMax = (1n << 62n) - 1n;

/** The maximum length of a value in an error, in characters. */
export const shownLengthMax = 80;

const digitZero = 0x30;
const digitNine = 0x39;
const fraction = /^-?\d+(\.\d+)?$/;
const uint64Max = `${(1n << 64n) - 1n}`;

/** A value for an error: quoted, in printable ASCII, cut to a safe length. */
export function shown(value: string): string {
  const cut = value.length > shownLengthMax;
  const text = JSON.stringify(cut ? value.slice(0, shownLengthMax) : value).replace(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return cut ? `${text}… (${value.length} characters)` : text;
}

/** The error for a field's value. `field` is, for example, `trade.price`: the kind of the event and the path in it. */
export function fieldError(field: string, value: string, takes: string): RecordingError {
  return new RecordingError(`has ${field} ${shown(value)}; it takes ${takes}`);
}

/** The error for an invalid quantity. */
export function quantityError(field: string, value: string): RecordingError {
  return fieldError(field, value, `decimal digits, at most ${digitsMax}, and a number below 2^256`);
}

/** Whether it is decimal digits below 2^256. */
export function isQuantity(text: string): boolean {
  return isIntegerUpTo(quantityMax, text);
}

/** @throws RecordingError unless it is decimal digits below 2^256 */
export function requireQuantity(field: string, text: string): void {
  if (!isQuantity(text)) throw quantityError(field, text);
}

/** The same for an optional quantity. */
export function checkQuantity(field: string, text: string): void {
  if (text !== "") requireQuantity(field, text);
}

/** Whether it is decimal digits of 64 bits. */
export function isUint64(text: string): boolean {
  return isIntegerUpTo(uint64Max, text);
}

/** @throws RecordingError unless it is empty, or decimal digits of 64 bits */
export function checkUint64(field: string, text: string): void {
  if (text !== "" && !isUint64(text)) throw fieldError(field, text, "decimal digits of 64 bits");
}

/** @throws RecordingError unless it is empty, or a decimal number, which may have a sign and a fraction */
export function checkFraction(field: string, text: string): void {
  if (text === "" || (text.length <= fractionLengthMax && fraction.test(text))) return;
  throw fieldError(field, text, `a decimal number such as 0.025, of at most ${fractionLengthMax} characters`);
}

/** @throws RecordingError unless it is an identifier */
export function requireId(field: string, id: string): string {
  const problem = identifierProblem(id);
  if (problem !== undefined) throw new RecordingError(`has ${field} ${shown(id)}, which ${problem}`);
  return id;
}

/** The same for an optional identifier. */
export function checkId(field: string, id: string): void {
  if (id !== "") requireId(field, id);
}

/** @throws RecordingError for a time before 1970 */
export function requireTime(field: string, timeNs: bigint): void {
  if (timeNs < 0n) throw fieldError(field, `${timeNs}`, "Unix nanoseconds, 0 or more");
}

/** @throws RecordingError for a time before 1970 or after {@link blockTimeNsMax} */
export function requireBlockTime(field: string, timeNs: bigint): void {
  if (timeNs >= 0n && timeNs <= blockTimeNsMax) return;
  throw fieldError(field, `${timeNs}`, `Unix nanoseconds, 0 or more, at most ${blockTimeNsMax}`);
}

/** @throws RecordingError for texts that are too long, or too many tags */
export function checkTexts(
  texts: Readonly<Record<string, string>>,
  tagsField = "",
  tags: readonly string[] = [],
): void {
  const tooLong = (text: string): boolean => text.length > textLengthMax;
  const [field, text] = Object.entries(texts).find(([, each]) => tooLong(each)) ?? [tagsField, tags.find(tooLong)];
  if (text !== undefined) throw fieldError(field, text, `at most ${textLengthMax} characters`);
  if (tags.length > tagsMax) throw fieldError(tagsField, `${tags.length} tags`, `at most ${tagsMax}`);
}

function isIntegerUpTo(max: string, text: string): boolean {
  const length = text.length;
  if (length === 0 || length > max.length) return false;
  for (let i = 0; i < length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < digitZero || unit > digitNine) return false;
  }
  return length < max.length || text <= max;
}
