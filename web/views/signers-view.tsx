import type { Call } from "../calls/call.js";
import { Calls } from "../calls/calls.js";
import { requestMessage } from "../calls/request-message.js";
import { Card } from "../components/card.js";
import { Pager, pageSize, withPage } from "../components/pager.js";
import { stalePoll } from "../hooks/staleness.js";
import { usePoll } from "../hooks/use-poll.js";
import { listSignerBundles, paths } from "../service/service.js";
import { SignerBundleFacts } from "./signer-bundle-facts.js";
import { SignerForm } from "./signer-form.js";

const pollMs = 10_000;

function signerCalls(query: URLSearchParams): readonly Call[] {
  return [
    {
      title: "These bundles",
      path: paths.signerBundles,
      query,
      method: "ListERC20MultiSigSignerRemovedBundles",
      request: requestMessage(query),
      response: "message",
    },
  ];
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
                <li key={cursor}>
                  <SignerBundleFacts bundle={node} />
                </li>
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
