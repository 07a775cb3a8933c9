import type { BundlePlace } from "../domain/cursor.js";
import { groupBy } from "../domain/group-by.js";
import { findPage, type Page, type PageRequest } from "../domain/page.js";
import type { Call } from "../domain/service.js";
import { asText } from "./connection/column.js";
import type { Parameter } from "./connection/connection.js";
import type { Reader } from "./connection/lease.js";
import { type BlockPlace, parsePlace, placeSql } from "./connection/store-place.js";
import type { Database } from "./database.js";
import { rowTable, type TableRows } from "./table-rows.js";

/** One submitter's bundle of a removed signer. */
export interface BundleRow {
  readonly signatureId: string;
  readonly nodeId: string;
  /** Lower case. */
  readonly submitter: string;
  /** Lower case. */
  readonly oldSigner: string;
  readonly nonce: string;
  /** The event's own time, in Unix nanoseconds. */
  readonly timeNs: bigint;
  /** Decimal text, as the event gave it. */
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
  keepsFirst: true,
};

export const signatureRows: TableRows<SignatureRow> = {
  ...rowTable<SignatureRow>("node_signature", 2, ["signatureId", "signature", "kind"]),
  keepsFirst: true,
};

/** The text under which equal epochs are equal: without leading zeros; text that is not a number is unchanged. */
function epochOf(epochSeq: string): string {
  return epochSeq.replace(/^0+(?=.)/, "");
}

/** Filters of signer-removed bundles; undefined does not restrict. */
export interface BundleFilter {
  readonly nodeId: string | undefined;
  /** Lower case. */
  readonly submitter: string | undefined;
  readonly epochSeq: bigint | undefined;
}

/** What is read of a bundle. */
type BundleColumns = Omit<BundleRow, "nodeId">;

/** A bundle with all its signatures. */
export interface SignerRemovedBundle extends BundleColumns {
  /** In hexadecimal, sorted, without duplicates. */
  readonly signatures: readonly string[];
}

/** The place of the store, or a bundle: the other columns are null. */
type BundleRead = { readonly [K in keyof BundleColumns]: BundleColumns[K] | null } & { readonly place: string | null };

/** The place of the store, or a signature. */
interface SignatureRead {
  readonly place: string | null;
  readonly signatureId: string | null;
  readonly signature: string | null;
}

/** One page of bundles in the order (time, signature id), with their signatures. An empty one is one statement. */
export function readBundles(
  database: Pick<Database, "lease">,
  filter: BundleFilter,
  request: PageRequest<BundlePlace>,
  call?: Call,
): Promise<Page<SignerRemovedBundle, BundlePlace>> {
  return database.lease({ class: "ledger", call }, async (reader) => {
    for (;;) {
      // Of the first scan, which has the rows of the page.
      let found: { readonly newestBlock: BlockPlace | undefined } | undefined;
      const page = await findPage(request, isAt, async (descending, want) => {
        const { bundles, place } = await scanBundles(reader, filter, request.cursor, descending, want);
        found ??= { newestBlock: place };
        return { rows: bundles };
      });
      const newestBlock = found?.newestBlock;
      if (page.rows.length === 0) return { ...page, rows: [], newestBlock };
      const { place, signaturesOf } = await readSignatures(reader, page.rows);
      // A block in between may have brought signatures that the block of the page does not have.
      if (place?.streamSequence !== newestBlock?.streamSequence) continue;
      const rows = page.rows.map((row) => ({ ...row, signatures: signaturesOf.get(row.signatureId) ?? [] }));
      return { ...page, rows, newestBlock };
    }
  });
}

function isAt(bundle: BundleColumns, place: BundlePlace): boolean {
  return bundle.timeNs === place.timeNs && bundle.signatureId === place.signatureId;
}

/**
 * From a cursor, inclusive: one range of the index for this combination of filters. The same statement tells the place
 * of the store.
 * @throws ReadBehindError if this process has seen more of the store
 */
async function scanBundles(
  reader: Reader,
  filter: BundleFilter,
  cursor: BundlePlace | undefined,
  descending: boolean,
  want: number,
): Promise<{ readonly bundles: BundleColumns[]; readonly place: BlockPlace | undefined }> {
  const conditions: string[] = [];
  const parameters: Parameter[] = [];
  let index = "bundle_by";
  const filtered: readonly (readonly [string, string | undefined])[] = [
    ["node_id", filter.nodeId],
    ["submitter", filter.submitter],
    ["epoch", filter.epochSeq?.toString()],
  ];
  for (const [column, value] of filtered) {
    if (value === undefined) continue;
    conditions.push(`${column} = ?`);
    parameters.push(value);
    index += `_${column.replace("_id", "")}`;
  }
  if (cursor !== undefined) {
    const beyond = descending ? "<" : ">";
    // As two ranges, which use the index; a comparison of rows would not.
    conditions.push(`(time_ns ${beyond} ? OR (time_ns = ? AND signature_id ${beyond}= ?))`);
    parameters.push(cursor.timeNs, cursor.timeNs, cursor.signatureId);
  }
  const order = descending ? "DESC" : "ASC";
  const page = `FROM signer_removed_bundle FORCE INDEX (${index})
     ${conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`}
     ORDER BY time_ns ${order}, signature_id ${order} LIMIT ${want}`;
  const [id, signer, submitter, nonce, epoch] = ["signature_id", "old_signer", "submitter", "nonce", "epoch_seq"].map(
    asText,
  );
  const bundle = [id, signer, submitter, nonce, "time_ns", epoch].join(", ");
  const rows = await reader.query<BundleRead>(
    `SELECT ${placeSql} AS place, NULL AS signatureId, NULL AS oldSigner, NULL AS submitter, NULL AS nonce,
       NULL AS timeNs, NULL AS epochSeq
     UNION ALL (SELECT NULL, ${bundle} ${page})`,
    parameters,
  );
  // SQL does not promise the order of the rows of a union.
  const bundles = rows.filter(isBundle).sort(descending ? (a, b) => comparePlaces(b, a) : comparePlaces);
  return { bundles, place: notePlace(reader, rows) };
}

/** The signatures of bundles by their id, in order, and the place of the store. @throws ReadBehindError */
async function readSignatures(reader: Reader, bundles: readonly BundleColumns[]) {
  const rows = await reader.query<SignatureRead>(
    `SELECT ${placeSql} AS place, NULL AS signatureId, NULL AS signature
     UNION ALL (SELECT NULL, ${asText("signature_id")}, ${asText("LOWER(HEX(signature))")}
       FROM node_signature WHERE signature_id IN (?))`,
    [bundles.map(({ signatureId }) => signatureId)],
  );
  const signaturesOf = new Map<string | null, string[]>();
  for (const [id, group] of groupBy(rows, ({ signatureId }) => signatureId)) {
    signaturesOf.set(id, group.flatMap(({ signature }) => signature ?? []).sort());
  }
  return { place: notePlace(reader, rows), signaturesOf };
}

function notePlace(reader: Reader, rows: readonly { readonly place: string | null }[]): BlockPlace | undefined {
  const place = parsePlace(rows.find((row) => row.place !== null)?.place ?? null);
  reader.found(place);
  return place;
}

function isBundle(row: BundleRead): row is BundleColumns & BundleRead {
  return row.timeNs !== null;
}

function comparePlaces(a: BundlePlace, b: BundlePlace): number {
  if (a.timeNs !== b.timeNs) return a.timeNs < b.timeNs ? -1 : 1;
  return a.signatureId < b.signatureId ? -1 : 1;
}
