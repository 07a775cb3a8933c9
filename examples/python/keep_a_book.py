"""Keeps the order books of a depth stream. Needs nothing but Python 3.9 or later:
python keep_a_book.py http://127.0.0.1:8080/api/v2/stream/markets/depth/updates
"""

import json
import sys
import urllib.request

SILENCE_MAX_SECONDS = 45


def apply(book, update):
    """The book after an update. Raises ValueError when updates before it are missing."""
    sequence = int(update["sequenceNumber"])
    previous = int(update["previousSequenceNumber"])
    if book is not None and sequence <= book["sequence"]:
        return book  # 1: known
    if previous == 0:
        book = {"buy": {}, "sell": {}}  # 2: the whole book
    elif book is None or previous > book["sequence"]:
        raise ValueError(f"updates of market {update['marketId']} are missing")  # 4: a gap
    for side in ("buy", "sell"):  # 3: changes
        for level in update[side]:
            price = int(level["price"])
            if level["volume"] == "0" and level["numberOfOrders"] == "0":
                book[side].pop(price, None)
            else:
                book[side][price] = level
    book["sequence"] = sequence
    return book


def keep_books(url, on_change):
    """Calls back after each change of a book. Returns when the stream ends: call it again, and start with new books."""
    books = {}
    with urllib.request.urlopen(url, timeout=SILENCE_MAX_SECONDS) as stream:
        for line in stream:
            message = json.loads(line)
            for update in message.get("result", {}).get("update", []):
                market = update["marketId"]
                books[market] = apply(books.get(market), update)
                on_change(market, books[market])
            if "error" in message:
                raise RuntimeError(message["error"]["message"])


def show(market, book):
    bid = max(book["buy"], default=None)
    offer = min(book["sell"], default=None)
    print(f"{market} {book['sequence']}: {bid} / {offer}", flush=True)


if __name__ == "__main__":
    keep_books(sys.argv[1], show)
