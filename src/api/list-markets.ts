import { type ListMarketsRequest, TradingDataService } from "../../gen/datanode/api/v2/trading_data_pb.js";
import { idCursors } from "../domain/cursor.js";
import { readForwardPagination } from "../domain/page.js";
import { type UnaryMethod, unary } from "../domain/service.js";
import type { Live } from "../live/live.js";

const { decode } = idCursors("markets");

/** ListMarkets: a page of the announced markets, by id, with or without those that are over. */
export function listMarkets(options: { readonly live: Live }): UnaryMethod {
  return unary(TradingDataService.method.listMarkets, ({ pagination, includeSettled = true }: ListMarketsRequest) => {
    const request = readForwardPagination(pagination, decode);
    const state = options.live.state();
    return state.marketList.page(includeSettled ? "all" : "open", request, () =>
      state.announced.flatMap(({ definition }) =>
        definition === undefined || (definition.isOver && !includeSettled) ? [] : [definition],
      ),
    );
  });
}
