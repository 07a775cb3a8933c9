import { shortId } from "../format/names.js";

/** A field of a form whose values are those of a URL. */
export interface FieldProps {
  readonly label: string;
  /** Name of the URL's parameter. */
  readonly name: string;
  readonly query: URLSearchParams;
}

interface Option {
  readonly value: string;
  readonly text: string;
}

interface TextFieldProps extends FieldProps {
  readonly placeholder?: string;
  /** The text of the value that the URL has. */
  readonly format?: (value: string) => string;
  /** Id of a list of suggestions. */
  readonly list?: string;
}

/** A line of text. */
export function TextField({ label, name, query, placeholder = "any", format, list }: TextFieldProps) {
  const value = query.get(name) ?? "";
  return (
    <label>
      {label}
      <input
        key={value}
        name={name}
        defaultValue={format?.(value) ?? value}
        list={list}
        placeholder={placeholder}
        maxLength={128}
        spellcheck={false}
        autocomplete="off"
      />
    </label>
  );
}

interface ChoiceFieldProps extends FieldProps {
  readonly options: readonly Option[];
}

function Options({ options, chosen }: { readonly options: readonly Option[]; readonly chosen: readonly string[] }) {
  return (
    <>
      {options.map(({ value, text }) => (
        <option key={value} value={value} selected={chosen.includes(value)}>
          {text}
        </option>
      ))}
    </>
  );
}

/** One of several values. */
export function ChoiceField({ label, name, query, options }: ChoiceFieldProps) {
  const chosen = query.get(name) ?? "";
  return (
    <label>
      {label}
      <select key={chosen} name={name}>
        <Options options={options} chosen={[chosen]} />
      </select>
    </label>
  );
}

/** Any number of several values. Those of the URL that are no option are options too. */
export function ListField({ label, name, query, options }: ChoiceFieldProps) {
  const chosen = query.getAll(name);
  const unlisted = chosen.filter((value) => options.every((option) => option.value !== value));
  const all = [...options, ...unlisted.map((value) => ({ value, text: shortId(value) }))];
  return (
    <label>
      {label}
      <select key={chosen.join(" ")} name={name} multiple size={4}>
        <Options options={all} chosen={chosen} />
      </select>
    </label>
  );
}
