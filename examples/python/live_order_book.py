"""A market's order book as it changes, whatever happens to the server: python live_order_book.py [MARKET]"""

import os
import sys

from marketd_client import Client, read_depth


def text(level):
    return "none" if level is None else f"{level.volume} at {level.price}"


def tell(error, wait):
    print(f"{error.details()}; next attempt in {wait:.1f} s", file=sys.stderr)


with Client(os.environ.get("MARKETD", "http://127.0.0.1:8080")) as client:
    # Without market ids: every market.
    for book, _ in read_depth(client, sys.argv[1:], on_disconnect=tell):
        best = f"{text(book.best_bid)} / {text(book.best_offer)}"
        levels = f"{len(book.buy)} and {len(book.sell)} levels"
        print(f"{book.market_id} {book.sequence_number}: {best}, {levels}", flush=True)
