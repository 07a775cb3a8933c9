import {
  type ERC20MultiSigSignerRemovedBundleEdgeSchema,
  type ListERC20MultiSigSignerRemovedBundlesRequest,
  ListERC20MultiSigSignerRemovedBundlesResponseSchema,
  TradingDataService,
} from "../../gen/datanode/api/v2/trading_data_pb.js";
import { bundleCursors } from "../domain/cursor.js";
import { invalidArgument } from "../domain/failure.js";
import { requireIdentifier } from "../domain/identifier.js";
import { connectionOf, readPagination } from "../domain/page.js";
import { type Call, type UnaryMethod, unary } from "../domain/service.js";
import type { Encodable } from "../encoding/field-values.js";
import { type BundleFilter, readBundles, type SignerRemovedBundle } from "../store/bundle-table.js";
import type { Database } from "../store/database.js";
import { pageResponse } from "./page-response.js";

const uint64Max = (1n << 64n) - 1n;

/** ListERC20MultiSigSignerRemovedBundles: one page of bundles, each with its signatures. */
export function listErc20MultiSigSignerRemovedBundles(options: { readonly database: Database }): UnaryMethod {
  return unary(
    TradingDataService.method.listERC20MultiSigSignerRemovedBundles,
    async (request: ListERC20MultiSigSignerRemovedBundlesRequest, call: Call) => {
      const filter = readFilter(request);
      const pageRequest = readPagination(request.pagination, bundleCursors.decode);
      const page = await readBundles(options.database, filter, pageRequest, call);
      const bundles = connectionOf(page, pageRequest, edge, bundleCursors.encode);
      return pageResponse(ListERC20MultiSigSignerRemovedBundlesResponseSchema, page, { bundles });
    },
  );
}

function readFilter(request: ListERC20MultiSigSignerRemovedBundlesRequest): BundleFilter {
  const { nodeId, submitter, epochSeq } = request;
  return {
    nodeId: nodeId === "" ? undefined : requireIdentifier("node_id", nodeId),
    submitter: submitter === "" ? undefined : requireIdentifier("submitter", submitter).toLowerCase(),
    epochSeq: epochSeq === "" ? undefined : readEpoch(epochSeq),
  };
}

function readEpoch(text: string): bigint {
  const epoch = /^[0-9]{1,40}$/.test(text) ? BigInt(text) : undefined;
  if (epoch === undefined || epoch > uint64Max) {
    throw invalidArgument(
      "epoch_seq",
      `is ${JSON.stringify(text.slice(0, 64))}; it takes a decimal number from 0 to ${uint64Max}`,
      "INVALID_EPOCH",
    );
  }
  return epoch;
}

type Edge = Encodable<typeof ERC20MultiSigSignerRemovedBundleEdgeSchema>;

function edge(bundle: SignerRemovedBundle): Edge & { readonly cursor: string } {
  const { oldSigner, submitter, nonce, epochSeq, timeNs } = bundle;
  const signatures = bundle.signatures.join("");
  return {
    cursor: bundleCursors.encode(bundle),
    node: {
      oldSigner,
      submitter,
      nonce,
      timestamp: timeNs,
      signatures: signatures === "" ? "" : `0x${signatures}`,
      epochSeq,
    },
  };
}
