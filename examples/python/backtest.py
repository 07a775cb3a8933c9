"""A toy strategy on what is kept of a market's past, then on what happens now: python backtest.py [MARKET] [SECONDS]

It follows the heavier side of the best prices. SECONDS: only the newest of the past.
"""

import os
import sys
from datetime import datetime, timezone
from typing import Iterable

from marketd_client import Client, DepthChange, read_depth, replay, scaled_price
from marketd_client.gen.datanode.api.v2.trading_data_pb2 import ListLatestMarketDataRequest


class Strategy:
    trades = 0
    #: In units of the last decimal of prices. Position and cash are of one unit of size.
    profit = 0
    _position = 0
    _cash = 0

    def see(self, change: DepthChange) -> None:
        bid, offer = change.book.best_bid, change.book.best_offer
        if bid is None or offer is None:
            return
        wanted = 1 if bid.volume > 2 * offer.volume else -1 if offer.volume > 2 * bid.volume else self._position
        if wanted != self._position:
            price = offer.price if wanted > self._position else bid.price
            self._cash -= (wanted - self._position) * int(price)
            self._position = wanted
            self.trades += 1
            seconds = change.block.timestamp // 10**9 if change.block else 0
            time = datetime.fromtimestamp(seconds, timezone.utc).isoformat()
            at = scaled_price(change.scale, price) if change.scale else price
            print(f"{time} position {wanted} at {at}", flush=True)
        self.profit = self._cash + self._position * int(bid.price if self._position > 0 else offer.price)

    def run(self, changes: Iterable[DepthChange]) -> None:
        for change in changes:
            self.see(change)


with Client(os.environ.get("MARKETD", "http://127.0.0.1:8080")) as client:
    listed = client.ListLatestMarketData(ListLatestMarketDataRequest()).markets_data
    market = sys.argv[1] if len(sys.argv) > 1 else listed[0].market
    # The end of the past: the time of the newest block.
    newest = next(read_depth(client, [market])).block
    until = newest.timestamp if newest else 0
    start = until - int(sys.argv[2]) * 10**9 if len(sys.argv) > 2 else None
    strategy = Strategy()
    strategy.run(replay(client, [market], from_time=start, until=until, every_update=True))
    print(f"backtest: {strategy.trades} trades, profit {strategy.profit}", flush=True)
    # The same code, from where the backtest ended.
    strategy.run(replay(client, [market], from_time=until - 1))
