import type { BundlePlace } from "../domain/cursor.js";
import type { Page, PageRequest } from "../domain/page.js";
import type { Call } from "../domain/service.js";
import { ledgerQueryTimeoutMs } from "./bounded-query.js";
import type { Database, Parameter } from "./database.js";
import { type BlockPlace, type PlacedConnection, parsePlace, placeSql, withPlacedConnection } from "./placed-read.js";

/** Filters of signer-removed bundles; undefined does not restrict. */
export interface BundleFilter {
  readonly nodeId: string | undefined;
  /** Lower case. */
  readonly submitter: string | undefined;
  readonly epochSeq: bigint | undefined;
}

/** A bundle with all its signatures. */
export interface SignerRemovedBundle {
  readonly signatureId: string;
  readonly oldSigner: string;
  readonly submitter: string;
  readonly nonce: string;
  /** The event's own time, in Unix nanoseconds. */
  readonly timeNs: bigint;
  /** Decimal text, as the event gave it. */
  readonly epochSeq: string;
  /** Bytes as latin1 text, sorted, without duplicates. */
  readonly signatures: readonly string[];
}

interface BundleRow {
  readonly signature_id: string;
  readonly old_signer: string;
  readonly submitter: string;
  readonly nonce: string;
  readonly time_ns: bigint;
  readonly epoch_seq: string;
  readonly signature: string | null;
}

/** A bundle, or none, and the place of the store. */
type PlacedRow = { readonly [K in keyof BundleRow]: BundleRow[K] | null } & { readonly place: string | null };

/** One page of bundles in the order (time, signature id), with their signatures, in one query. */
export function readBundles(
  database: Database,
  filter: BundleFilter,
  request: PageRequest<BundlePlace>,
  call?: Call,
): Promise<Page<SignerRemovedBundle, BundlePlace>> {
  return withPlacedConnection(database, { call }, ledgerQueryTimeoutMs, async (connection) => {
    const { cursor, size, backwards, newestFirst } = request;
    const descending = newestFirst !== backwards;
    const scan = (down: boolean, want: number) => scanBundles(database, connection, filter, cursor, down, want);
    const { bundles: found, place: newestBlock } = await scan(descending, size + (cursor === undefined ? 1 : 2));
    const atCursor = cursor !== undefined && found[0] !== undefined && isAt(found[0], cursor);
    const beyond = atCursor ? found.slice(1) : found;
    const rows = beyond.slice(0, size);
    const more = beyond.length > size;
    const behind = atCursor || (cursor !== undefined && (await scan(!descending, 1)).bundles.length > 0);
    return backwards
      ? { rows: rows.reverse(), hasNext: behind, hasPrevious: more, newestBlock }
      : { rows, hasNext: more, hasPrevious: behind, newestBlock };
  });
}

function isAt(bundle: SignerRemovedBundle, place: BundlePlace): boolean {
  return bundle.timeNs === place.timeNs && bundle.signatureId === place.signatureId;
}

/**
 * From a cursor, inclusive: one range of the index for this combination of filters. The signatures are joined to the
 * page, not the page to them, because LIMIT must count bundles. The place of the store is joined first, so that it is
 * returned without bundles too.
 * @throws ReadBehindError if this process has seen more of the store
 */
async function scanBundles(
  database: Database,
  connection: PlacedConnection,
  filter: BundleFilter,
  cursor: BundlePlace | undefined,
  descending: boolean,
  want: number,
): Promise<{ readonly bundles: SignerRemovedBundle[]; readonly place: BlockPlace | undefined }> {
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
  const rows = await connection.query<PlacedRow>(
    `SELECT p.place, b.signature_id, b.old_signer, b.submitter, b.nonce, b.time_ns, b.epoch_seq, s.signature
     FROM (SELECT ${placeSql} AS place) AS p LEFT JOIN (
       SELECT signature_id, old_signer, submitter, nonce, time_ns, epoch_seq
       FROM signer_removed_bundle FORCE INDEX (${index})
       ${conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`}
       ORDER BY time_ns ${order}, signature_id ${order} LIMIT ${want}
     ) AS b ON TRUE LEFT JOIN node_signature AS s ON s.signature_id = b.signature_id
     ORDER BY b.time_ns ${order}, b.signature_id ${order}, s.signature`,
    parameters,
  );
  const place = parsePlace(rows[0]?.place ?? null);
  database.knownPlace.found(place);
  if (place !== undefined) connection.dependOn(place, true);
  return { bundles: fold(rows.filter(isBundle)), place };
}

function isBundle(row: PlacedRow): row is BundleRow & PlacedRow {
  return row.signature_id !== null;
}

function fold(rows: readonly BundleRow[]): SignerRemovedBundle[] {
  const bundles: (SignerRemovedBundle & { readonly signatures: string[] })[] = [];
  for (const row of rows) {
    let bundle = bundles.at(-1);
    if (bundle?.signatureId !== row.signature_id) {
      bundle = {
        signatureId: row.signature_id,
        oldSigner: row.old_signer,
        submitter: row.submitter,
        nonce: row.nonce,
        timeNs: row.time_ns,
        epochSeq: row.epoch_seq,
        signatures: [],
      };
      bundles.push(bundle);
    }
    if (row.signature !== null) bundle.signatures.push(row.signature);
  }
  return bundles;
}
