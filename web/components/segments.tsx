interface SegmentsProps<T extends string> {
  /** What is chosen, for readers of the screen. */
  readonly legend: string;
  readonly name: string;
  readonly values: readonly T[];
  readonly chosen: T;
  readonly onChoose: (value: T) => void;
}

/** One of a few values, side by side. */
export function Segments<T extends string>({ legend, name, values, chosen, onChoose }: SegmentsProps<T>) {
  return (
    <fieldset class="segments">
      <legend class="visually-hidden">{legend}</legend>
      {values.map((each) => (
        <label key={each}>
          <input type="radio" name={name} value={each} checked={each === chosen} onChange={() => onChoose(each)} />
          <span>{each}</span>
        </label>
      ))}
    </fieldset>
  );
}
