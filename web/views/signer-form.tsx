import { navigate, queryHref } from "../route.js";

const fields = [
  { name: "nodeId", label: "Validator that was removed" },
  { name: "submitter", label: "Submitter, an Ethereum address" },
  { name: "epochSeq", label: "Epoch" },
] as const;

/** All filters of the signer bundles. Its values are those of the URL. */
export function SignerForm({ query }: { readonly query: URLSearchParams }) {
  const submit = (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    const given = [...new FormData(event.currentTarget)].map(([name, value]) => [name, String(value).trim()]);
    navigate(queryHref("signers", new URLSearchParams(given)));
  };
  return (
    <form id="signer-form" class="bar" onSubmit={submit}>
      {fields.map(({ name, label }) => (
        <label key={name}>
          {label}
          <input key={query.get(name)} name={name} defaultValue={query.get(name) ?? ""} placeholder="any" />
        </label>
      ))}
      <button type="submit">Show</button>
      <a class="button" href="#/signers">
        Clear
      </a>
    </form>
  );
}
