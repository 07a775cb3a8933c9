import { styleText } from "node:util";

/** Styles of a text that a terminal of eight colours has. */
export type Emphasis = "bold" | "dim" | "inverse" | "red" | "green" | "yellow";

/** Text for a terminal, with or without colours. */
export type Style = (text: string, ...emphases: Emphasis[]) => string;

/** Without colours, text is unchanged. */
export function styleOf(hasColors: boolean): Style {
  if (!hasColors) return (text) => text;
  return (text, ...emphases) => (text === "" ? text : styleText(emphases, text, { validateStream: false }));
}
