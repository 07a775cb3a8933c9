import type { Call } from "../calls/call.js";
import { Calls } from "../calls/calls.js";
import { requestMessage } from "../calls/request-message.js";
import { Card } from "../components/card.js";
import { Facts } from "../components/facts.js";
import { Pager, pageSize, withPage } from "../components/pager.js";
import { instant } from "../format/instant.js";
import { stalePoll } from "../hooks/staleness.js";
import { usePoll } from "../hooks/use-poll.js";
import { navigate, queryHref } from "../route.js";
import type { SignerBundle } from "../service/messages.js";
import { listSignerBundles, paths } from "../service/service.js";

const pollMs = 10_000;

const fields = [
  { name: "nodeId", label: "Validator that was removed" },
  { name: "submitter", label: "Submitter, an Ethereum address" },
  { name: "epochSeq", label: "Epoch" },
] as const;

function signerCalls(query: URLSearchParams): readonly Call[] {
  return [
    {
      title: "These bundles",
      path: paths.signerBundles,
      query,
      method: "ListERC20MultiSigSignerRemovedBundles",
      request: requestMessage(query),
      answer: "message",
    },
  ];
}

function Bundle({ bundle }: { readonly bundle: SignerBundle }) {
  return (
    <li>
      <Facts
        facts={[
          ["Removed signer", <code>{bundle.oldSigner}</code>],
          ["Submitter", <code>{bundle.submitter}</code>],
          ["Epoch", bundle.epochSeq],
          ["Time (UTC)", <span class="amount">{instant(bundle.timestamp)}</span>],
          ["Nonce", <code>{bundle.nonce}</code>],
          ["Signatures", bundle.signatures === "" ? "none yet" : <code>{bundle.signatures}</code>],
        ]}
      />
    </li>
  );
}

function SignerForm({ query }: { readonly query: URLSearchParams }) {
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

/** Signatures with which removed validators leave the multi-signature contract. */
export function SignersView({ query }: { readonly query: URLSearchParams }) {
  const isPaged = ["first", "last"].some((name) => query.has(`pagination.${name}`));
  const asked = isPaged ? query : withPage(query, { first: String(pageSize) });
  const page = usePoll(() => listSignerBundles(asked), pollMs, asked.toString());
  const bundles = page.value?.edges ?? [];
  return (
    <>
      <h1>Signer bundles</h1>
      <Card title="Filter">
        <SignerForm query={query} />
      </Card>
      {page.error !== undefined && page.value === undefined && (
        <p id="problem" class="notice" role="alert">
          {page.error.message}
        </p>
      )}
      <Card title="Bundles, newest first" stale={stalePoll(page)}>
        {page.value === undefined ? (
          <p class="quiet">{page.error === undefined ? "Loading…" : "None."}</p>
        ) : (
          <>
            <ol id="bundles" class="bundles">
              {bundles.map(({ node, cursor }) => (
                <Bundle key={cursor} bundle={node} />
              ))}
            </ol>
            <Pager view="signers" query={query} pageInfo={page.value.pageInfo} rows={bundles.length} />
          </>
        )}
      </Card>
      <Calls calls={signerCalls(asked)} />
    </>
  );
}
