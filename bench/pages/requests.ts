import { create, toBinary } from "@bufbuild/protobuf";
import { ListLedgerEntriesRequestSchema } from "../../gen/datanode/api/v2/trading_data_pb.js";

/** A page that every compared server can answer. */
export interface PageKind {
  readonly name: "json_100" | "json_1000" | "grpc_100" | "grpc_1000" | "bundles" | "empty_bundles" | "small_export";
  readonly protocol: "http" | "grpc";
  /** The path and query of our URL, or the path of the gRPC method. */
  readonly path: string;
  /** What a plain server is asked for. */
  readonly plain: { readonly list: "ledger" | "bundles"; readonly rows: number } | undefined;
  /** The gRPC request message. */
  readonly message: Uint8Array;
  /** Pages of a round. */
  readonly count: number;
}

const history = "/api/v2/ledgerentry/history";
const bundles = "/api/v2/erc20/multisigcontrol/signer/removed/bundles";
const rpc = "/datanode.api.v2.TradingDataService";

function ledgerRequest(first: number): Uint8Array {
  const request = create(ListLedgerEntriesRequestSchema, { pagination: { first } });
  return toBinary(ListLedgerEntriesRequestSchema, request);
}

function httpPage(name: PageKind["name"], path: string, plain: PageKind["plain"], count: number): PageKind {
  return { name, protocol: "http", path, plain, message: new Uint8Array(), count };
}

function grpcPage(name: PageKind["name"], rows: number, count: number): PageKind {
  const plain = { list: "ledger", rows } as const;
  return { name, protocol: "grpc", path: `${rpc}/ListLedgerEntries`, plain, message: ledgerRequest(rows), count };
}

/** The newest pages of all entries, of bundles, and what costs little but its overhead. */
export function pageKinds(coldParty: string, asset: string): readonly PageKind[] {
  const file = `/api/v2/ledgerentry/export?partyId=${coldParty}&assetId=${asset}`;
  return [
    httpPage("json_100", `${history}?pagination.first=100`, { list: "ledger", rows: 100 }, 200),
    httpPage("json_1000", `${history}?pagination.first=1000`, { list: "ledger", rows: 1000 }, 40),
    grpcPage("grpc_100", 100, 200),
    grpcPage("grpc_1000", 1000, 40),
    httpPage("bundles", `${bundles}?pagination.first=100`, { list: "bundles", rows: 100 }, 200),
    httpPage("empty_bundles", `${bundles}?nodeId=none`, undefined, 400),
    httpPage("small_export", file, undefined, 200),
  ];
}
