"""The best prices of a market: python best_prices.py [MARKET]. Without a market: that of the first in the list."""

import os
import sys
from typing import Sequence

from marketd_client import Client, scaled_price, scaled_size
from marketd_client.gen.datanode.api.v2.trading_data_pb2 import (
    GetLatestMarketDepthRequest,
    GetMarketRequest,
    ListLatestMarketDataRequest,
)
from marketd_client.gen.vega.markets_pb2 import Market
from marketd_client.gen.vega.vega_pb2 import PriceLevel


def show(side: str, market: Market, levels: Sequence[PriceLevel]) -> None:
    """Prices and volumes are integers. The market says how many of their digits are decimals."""
    if levels:
        print(side, scaled_price(market, levels[0].price), scaled_size(market, levels[0].volume))
    else:
        print(side, "none")


with Client(os.environ.get("MARKETD", "http://127.0.0.1:8080")) as client:
    if len(sys.argv) > 1:
        market_id = sys.argv[1]
    else:
        listed = client.ListLatestMarketData(ListLatestMarketDataRequest()).markets_data
        market_id = listed[0].market if listed else sys.exit("no market has market data; name a market")
    market = client.GetMarket(GetMarketRequest(market_id=market_id)).market
    depth = client.GetLatestMarketDepth(GetLatestMarketDepthRequest(market_id=market_id, max_depth=1))
    print(market.tradable_instrument.instrument.name)
    show("bid", market, depth.buy)
    show("offer", market, depth.sell)
