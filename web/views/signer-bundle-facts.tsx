import { Facts } from "../components/facts.js";
import { Time } from "../components/time.js";
import type { SignerBundle } from "../service/messages.js";

/** What a removed signer's bundle holds. */
export function SignerBundleFacts({ bundle }: { readonly bundle: SignerBundle }) {
  return (
    <>
      <Facts
        facts={[
          ["Signer", <code>{bundle.oldSigner}</code>],
          ["Submitter", <code>{bundle.submitter}</code>],
          ["Epoch", bundle.epochSeq],
          ["Time (UTC)", <Time at={bundle.timestamp} />],
          ["Nonce", <code>{bundle.nonce}</code>],
          ["Signatures", bundle.signatures === "" ? "none yet" : `${(bundle.signatures.length - 2) / 2} bytes`],
        ]}
      />
      {bundle.signatures !== "" && (
        <details>
          <summary>The signatures, sorted</summary>
          <code>{bundle.signatures}</code>
        </details>
      )}
    </>
  );
}
