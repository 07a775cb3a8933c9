import { useObservable } from "../hooks/observable.js";
import { assets } from "../service/assets.js";
import { type FieldProps, TextField } from "./fields.js";

const listId = "asset-list";

/** What {@link AssetField} suggests, once in a page. */
export function AssetList() {
  const all = useObservable(assets, (value) => value);
  return (
    <datalist id={listId}>
      {[...(all?.values() ?? [])].map(({ id, label, title }) => (
        <option key={id} value={label}>
          {title}
        </option>
      ))}
    </datalist>
  );
}

/** An asset by its symbol or its identifier. */
export function AssetField(field: FieldProps) {
  const all = useObservable(assets, (value) => value);
  return (
    <TextField {...field} list={listId} placeholder="any: symbol or id" format={(id) => all?.get(id)?.label ?? id} />
  );
}
