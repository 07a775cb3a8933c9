"""The minutes of a market: start, open, high, low, close and volume: python candles.py [MARKET] [SECONDS]

SECONDS: only those that began in the newest of them.
"""

import os
import sys
import time
from datetime import datetime, timezone

from marketd_client import Client, candles, markets, scaled_price, scaled_size

start = time.time_ns() - int(sys.argv[2]) * 10**9 if len(sys.argv) > 2 else None
with Client(os.environ.get("MARKETD", "http://127.0.0.1:8080")) as client:
    wanted = sys.argv[1] if len(sys.argv) > 1 else None
    market = next(market for market in markets(client) if wanted in (None, market.id))
    for candle in candles(client, market.id, "1 minute", start):
        at = datetime.fromtimestamp(candle.start // 10**9, timezone.utc).isoformat()
        prices = [scaled_price(market, price) for price in (candle.open, candle.high, candle.low, candle.close)]
        print(at, *prices, scaled_size(market, candle.volume))
