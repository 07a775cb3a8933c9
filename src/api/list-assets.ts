import { type ListAssetsRequest, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { idCursors } from "../domain/cursor.js";
import { requireIdentifier } from "../domain/identifier.js";
import { readForwardPagination } from "../domain/page.js";
import { type UnaryMethod, unary } from "../domain/service.js";
import type { Live } from "../live/live.js";

const { decode } = idCursors("assets");

/** ListAssets: a page of the announced assets, by id, or the one that is asked for. */
export function listAssets(options: { readonly live: Live }): UnaryMethod {
  return unary(TradingDataService.method.listAssets, ({ assetId, pagination }: ListAssetsRequest) => {
    const request = readForwardPagination(pagination, decode);
    const state = options.live.state();
    if (!assetId) return state.assetList.page("", request, () => state.assets);
    const asset = state.requireAsset(requireIdentifier("asset_id", assetId));
    return state.assetList.page(assetId, request, () => [asset]);
  });
}
