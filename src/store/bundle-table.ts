import type { Connection } from "./driver-connection.js";
import type { TableRows } from "./table-rows.js";
import { upsertRows } from "./upsert.js";

/** One submitter's bundle of a removed signer. */
export interface BundleRow {
  readonly signatureId: string;
  readonly nodeId: string;
  /** Lower case. */
  readonly submitter: string;
  /** Lower case. */
  readonly oldSigner: string;
  readonly nonce: string;
  /** The time of the event itself. */
  readonly timeNs: bigint;
  readonly epochSeq: string;
}

/** One node's signature. */
export interface SignatureRow {
  readonly signatureId: string;
  readonly signature: Uint8Array;
  readonly kind: number;
}

export const bundleRows: TableRows<BundleRow> = {
  table: "signer_removed_bundle",
  columns: ["signature_id", "node_id", "submitter", "old_signer", "nonce", "time_ns", "epoch_seq", "epoch"],
  keyColumns: 1,
  values: ({ signatureId, nodeId, submitter, oldSigner, nonce, timeNs, epochSeq }) => {
    return [signatureId, nodeId, submitter, oldSigner, nonce, timeNs, epochSeq, epochOf(epochSeq)];
  },
};

export const signatureRows: TableRows<SignatureRow> = {
  table: "node_signature",
  columns: ["signature_id", "signature", "kind"],
  keyColumns: 2,
  values: (row) => [row.signatureId, row.signature, row.kind],
};

/** Stores bundles; the first of an id stays. */
export async function writeBundles(connection: Connection, rows: readonly BundleRow[]): Promise<void> {
  await upsertRows(connection, bundleRows, rows, "keep");
}

/** The text under which equal epochs are equal: without leading zeros; text that is not a number is unchanged. */
export function epochOf(epochSeq: string): string {
  return epochSeq.replace(/^0+(?=.)/, "");
}

/** Stores signatures; duplicates are ignored. */
export async function writeSignatures(connection: Connection, rows: readonly SignatureRow[]): Promise<void> {
  await upsertRows(connection, signatureRows, rows, "keep");
}
