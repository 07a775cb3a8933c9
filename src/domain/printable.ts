/** Characters of a text of others that a message quotes. */
const quotedMax = 80;

/**
 * External text as one line of printable characters: it may contain escape sequences, characters that change the
 * direction of text, and line ends.
 */
export function printable(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "\ufffd");
}

/** The first `length` characters of a text, and … if it is longer. */
export function shortened(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}…`;
}

/** External text in quotes, in an error's message: printable, and cut after {@link quotedMax} characters. */
export function quoted(text: string): string {
  return `"${printable(shortened(text, quotedMax))}"`;
}
