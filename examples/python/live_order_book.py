"""A market's order book as it changes, whatever happens to the server: python live_order_book.py [MARKET]"""

import os
import sys
from typing import Optional

from marketd_client import Client, FailedCall, read_depth
from marketd_client.gen.vega.vega_pb2 import PriceLevel


def text(level: Optional[PriceLevel]) -> str:
    return "none" if level is None else f"{level.volume} at {level.price}"


def tell(error: FailedCall, wait: float) -> None:
    print(f"{error.details()}; next attempt in {wait:.1f} s", file=sys.stderr)


with Client(os.environ.get("MARKETD", "http://127.0.0.1:8080")) as client:
    # Without market ids: every market.
    for book, _ in read_depth(client, sys.argv[1:], on_disconnect=tell):
        best = f"{text(book.best_bid)} / {text(book.best_offer)}"
        levels = f"{len(book.buy)} and {len(book.sell)} levels"
        print(f"{book.market_id} {book.sequence_number}: {best}, {levels}", flush=True)
