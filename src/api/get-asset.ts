import { type GetAssetRequest, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { requireIdentifier } from "../domain/identifier.js";
import { type UnaryMethod, unary } from "../domain/service.js";
import type { Live } from "../live/live.js";

/** GetAsset: the asset as the network last announced it. */
export function getAsset(options: { readonly live: Live }): UnaryMethod {
  return unary(TradingDataService.method.getAsset, (request: GetAssetRequest) => {
    const assetId = requireIdentifier("asset_id", request.assetId);
    return options.live.state().requireAsset(assetId).response;
  });
}
