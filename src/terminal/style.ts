/** Select Graphic Rendition codes of ECMA-48 that a terminal of eight colours has. */
const codes = { bold: 1, dim: 2, inverse: 7, red: 31, green: 32, yellow: 33 } as const;

/** Styles of a text. */
export type Emphasis = keyof typeof codes;

/** Text for a terminal, with or without colours. */
export type Style = (text: string, ...emphases: readonly Emphasis[]) => string;

/** Without colours, text is unchanged. */
export function styleOf(hasColors: boolean): Style {
  if (!hasColors) return (text) => text;
  return (text, ...emphases) => {
    const start = emphases.map((emphasis) => `\u001b[${codes[emphasis]}m`).join("");
    return start === "" || text === "" ? text : `${start}${text}\u001b[0m`;
  };
}
