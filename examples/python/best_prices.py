"""The best prices of a market: python best_prices.py [MARKET]. Without a market: that of the first in the list."""

import os
import sys
from decimal import Decimal, localcontext

from marketd_client import Client
from marketd_client.gen.datanode.api.v2.trading_data_pb2 import (
    GetLatestMarketDepthRequest,
    GetMarketRequest,
    ListLatestMarketDataRequest,
)

PRICE_DIGITS_MAX = 78


def show(side, levels, places):
    if not levels:
        print(side, "none")
        return
    with localcontext() as context:
        context.prec = PRICE_DIGITS_MAX
        print(side, format(Decimal(levels[0].price).scaleb(-places), "f"), levels[0].volume)


with Client(os.environ.get("MARKETD", "http://127.0.0.1:8080")) as client:
    if len(sys.argv) > 1:
        market_id = sys.argv[1]
    else:
        listed = client.ListLatestMarketData(ListLatestMarketDataRequest()).markets_data
        market_id = listed[0].market if listed else sys.exit("no market has market data; name a market")
    market = client.GetMarket(GetMarketRequest(market_id=market_id)).market
    depth = client.GetLatestMarketDepth(GetLatestMarketDepthRequest(market_id=market_id, max_depth=1))
    print(market.tradable_instrument.instrument.name)
    show("bid", depth.buy, market.decimal_places)
    show("offer", depth.sell, market.decimal_places)
