/** Select Graphic Rendition codes of ECMA-48 that a terminal of eight colours has. */
const codes = { bold: 1, dim: 2, inverse: 7, red: 31, green: 32, yellow: 33 } as const;

/** How a text stands out. */
export type Emphasis = keyof typeof codes;

/** Text for a terminal, with colours or without. */
export type Style = (text: string, ...emphases: readonly Emphasis[]) => string;

/** Without colours a text stays as it is. */
export function styleOf(hasColors: boolean): Style {
  if (!hasColors) return (text) => text;
  return (text, ...emphases) => {
    const start = emphases.map((emphasis) => `\u001b[${codes[emphasis]}m`).join("");
    return start === "" || text === "" ? text : `${start}${text}\u001b[0m`;
  };
}

/** Text of others as one line of printable characters: it may hold escape sequences that a terminal would obey. */
export function printable(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "\ufffd");
}
