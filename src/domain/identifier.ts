import { invalidArgument } from "./failure.js";

/** The longest identifier, in characters. Only printable ASCII is valid, so characters are bytes. */
export const identifierLengthMax = 128;

/** A description of what is wrong with an identifier; undefined if it is valid. */
export function identifierProblem(text: string): string | undefined {
  if (text.length === 0) return "is empty; give an identifier";
  if (text.length > identifierLengthMax) {
    return `has ${text.length} characters; an identifier has at most ${identifierLengthMax}`;
  }
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x20 || unit > 0x7e) {
      return `has an unprintable character at position ${i + 1}; an identifier is printable ASCII`;
    }
  }
  return undefined;
}

/** Checks a required identifier. @throws Failure naming `field` */
export function requireIdentifier(field: string, text: string): string {
  const problem = identifierProblem(text);
  if (problem !== undefined) throw invalidArgument(field, problem, "INVALID_IDENTIFIER");
  return text;
}
