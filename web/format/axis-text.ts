export const daySeconds = 86_400;

/** A time beside an axis in UTC, as short as its steps and the length of the axis allow. */
export function axisTime(seconds: number, stepSeconds: number, lengthSeconds: number): string {
  const text = new Date(seconds * 1_000).toISOString().replace("T", " ");
  if (stepSeconds >= daySeconds) return text.slice(0, 10);
  return lengthSeconds > daySeconds ? text.slice(5, 16) : text.slice(11, 19);
}
