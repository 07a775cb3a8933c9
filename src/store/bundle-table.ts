import type { Connection } from "./database.js";
import { upsert } from "./upsert.js";

/** One submitter's bundle of a removed signer. */
export interface BundleRow {
  readonly signatureId: string;
  readonly nodeId: string;
  /** Lower case. */
  readonly submitter: string;
  /** Lower case. */
  readonly oldSigner: string;
  readonly nonce: string;
  /** The event's own. */
  readonly timeNs: bigint;
  readonly epochSeq: string;
}

/** One node's signature. */
export interface SignatureRow {
  readonly signatureId: string;
  readonly signature: Uint8Array;
  readonly kind: number;
}

/** Stores bundles; the first of an id stays. */
export async function writeBundles(connection: Connection, rows: readonly BundleRow[]): Promise<void> {
  await upsert(
    connection,
    "signer_removed_bundle",
    ["signature_id", "node_id", "submitter", "old_signer", "nonce", "time_ns", "epoch_seq", "epoch"],
    rows.map(({ signatureId, nodeId, submitter, oldSigner, nonce, timeNs, epochSeq }) => {
      return [signatureId, nodeId, submitter, oldSigner, nonce, timeNs, epochSeq, epochOf(epochSeq)];
    }),
    "keep",
  );
}

/** The text by which epochs are equal as numbers: without leading zeros; text that is no number stays what it is. */
export function epochOf(epochSeq: string): string {
  return epochSeq.replace(/^0+(?=.)/, "");
}

/** Stores signatures; the same one twice stays one. */
export async function writeSignatures(connection: Connection, rows: readonly SignatureRow[]): Promise<void> {
  await upsert(
    connection,
    "node_signature",
    ["signature_id", "signature", "kind"],
    rows.map((row) => [row.signatureId, row.signature, row.kind]),
    "keep",
  );
}
