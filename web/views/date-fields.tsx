import { TextField } from "../components/fields.js";
import { shortTime } from "../format/time-text.js";

const timeText = (value: string) => (/^[0-9]+$/.test(value) ? shortTime(BigInt(value)) : value);

/** The bounds of a range of times. */
export function DateFields({ query }: { readonly query: URLSearchParams }) {
  const date = { query, placeholder: "2024-01-31 12:00", format: timeText };
  return (
    <>
      <TextField label="From (UTC)" name="dateRange.startTimestamp" {...date} />
      <TextField label="Before (UTC)" name="dateRange.endTimestamp" {...date} />
    </>
  );
}
