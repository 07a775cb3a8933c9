"""A market's trades from the first that is kept on, and then as they are made: python trades.py [MARKET]

It goes on when the server restarts. Without a market: those of the first in the list.
"""

import os
import sys

from marketd_client import Client, markets, scaled_price, scaled_size, trades

with Client(os.environ.get("MARKETD", "http://127.0.0.1:8080")) as client:
    for market in markets(client):
        if len(sys.argv) > 1 and market.id != sys.argv[1]:
            continue
        for trade in trades(client, market.id):
            price, size = scaled_price(market, trade.price), scaled_size(market, trade.size)
            print(trade.timestamp, price, size, trade.id, flush=True)
