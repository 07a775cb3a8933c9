/** Graphemes of two columns: East Asian wide and full-width ones, and emoji. */
const wide =
  /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\u3000-\u303e\uff01-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}|\ufe0f/u;

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/** The columns of printable text in a terminal. */
export function textWidth(text: string): number {
  let width = 0;
  for (const { segment } of graphemes.segment(text)) width += wide.test(segment) ? 2 : 1;
  return width;
}

/** Printable text cut to so many columns, with an ellipsis at its end if it is longer. */
export function clipped(text: string, columns: number): string {
  // A text of others can have any length.
  if (text.length <= columns && textWidth(text) <= columns) return text;
  let cut = "";
  let width = 0;
  for (const { segment } of graphemes.segment(text.slice(0, 16 * columns))) {
    width += textWidth(segment);
    if (width > columns - 1) break;
    cut += segment;
  }
  return columns > 0 && cut !== text ? `${cut}…` : cut;
}
