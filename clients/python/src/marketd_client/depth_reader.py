from __future__ import annotations

import threading
import time
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

import grpc

from .client import Client
from .depth_book import DepthBook
from .gen.datanode.api.v2.trading_data_pb2 import ObserveMarketsDepthUpdatesRequest
from .gen.vega.vega_pb2 import MarketDepthUpdate
from .retry import is_transient, retry_wait_seconds

#: A stream without a message for this long is given up; a server sends one every 15 seconds.
SILENCE_MAX_SECONDS = 45.0

_POLL_SECONDS = 0.1


class DepthChange(NamedTuple):
    """A book that has changed, and the update that changed it."""

    #: After the update. The same object is changed again by the next update; a new connection has new books.
    book: DepthBook
    update: MarketDepthUpdate


class _Broken(grpc.RpcError):
    """A stream that ended, fell silent or has a gap, in the form of an error of gRPC."""

    def __init__(self, message: str) -> None:
        super().__init__(message)

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return str(self)

    def trailing_metadata(self) -> None:
        return None


def read_depth(
    client: Client,
    market_ids: Sequence[str] = (),
    *,
    stop: Optional[threading.Event] = None,
    silence_max_seconds: float = SILENCE_MAX_SECONDS,
    on_connect: Optional[Callable[[], object]] = None,
    on_disconnect: Optional[Callable[[grpc.RpcError, float], object]] = None,
) -> Iterator[DepthChange]:
    """Order books as they change, for as long as the caller reads: first every market's whole book, then each change.

    When the stream breaks it is opened again, after a wait, and starts with whole books. Read as slowly as you like:
    the server merges what you have not read yet.

    Without ``market_ids``: every market, those announced later included. ``stop`` ends the iterator from another
    thread; leaving the loop ends it too. ``on_connect`` is called when a stream has sent its first message, before its
    first change, on each connection: read there what you keep of markets, such as their decimals, which may have changed
    meanwhile; a grpc.RpcError that it raises is treated as the stream's. ``on_disconnect`` is called when the stream broke, with the error and the
    seconds until the next attempt; the books are out of date until the next change. Raises grpc.RpcError when trying
    again is of no use, such as NOT_FOUND for an unknown market.
    """
    stop = stop or threading.Event()
    failures = 0
    while not stop.is_set():
        try:
            for message_number, changes in enumerate(_read_once(client, market_ids, stop, silence_max_seconds)):
                if message_number == 0 and on_connect is not None:
                    on_connect()
                failures = 0
                yield from changes
        except grpc.RpcError as error:
            if stop.is_set():
                return
            if not is_transient(error):
                raise
            failures += 1
            wait = retry_wait_seconds(error, failures)
            if on_disconnect is not None:
                on_disconnect(error, wait)
            stop.wait(wait)


def _read_once(
    client: Client, market_ids: Sequence[str], stop: threading.Event, silence_max: float
) -> Iterator[List[DepthChange]]:
    """The changes of each message of one stream. Raises when it ends, also without an error of its own."""
    books: Dict[str, DepthBook] = {}
    call = client.ObserveMarketsDepthUpdates(ObserveMarketsDepthUpdatesRequest(market_ids=market_ids))
    watch = _Watch(call, stop, silence_max)
    watch.start()
    try:
        while True:
            watch.waiting_since = time.monotonic()
            message = next(call, None)
            # Only the time that we wait counts, not the time that the caller takes over a change.
            watch.waiting_since = None
            if message is None:
                raise _Broken("the stream ended")
            yield [_apply(books, update) for update in message.update]
    except grpc.RpcError:
        if watch.found_silence:
            raise _Broken(f"no message for {silence_max} s") from None
        raise
    finally:
        watch.done.set()
        call.cancel()


def _apply(books: Dict[str, DepthBook], update: MarketDepthUpdate) -> DepthChange:
    book = books.setdefault(update.market_id, DepthBook(update.market_id))
    if book.apply(update) == "gap":
        raise _Broken(f"updates of market {update.market_id} are missing")
    return DepthChange(book, update)


class _Watch(threading.Thread):
    """Cancels a call on which nothing arrives for too long, or that is to stop: a blocked reader cannot do so itself."""

    def __init__(self, call: grpc.Call, stop: threading.Event, silence_max: float) -> None:
        super().__init__(name="marketd-depth-watch", daemon=True)
        self.waiting_since: Optional[float] = None
        self.found_silence = False
        self.done = threading.Event()
        self._call = call
        self._stop_reading = stop
        self._silence_max = silence_max

    def run(self) -> None:
        while not self.done.wait(_POLL_SECONDS):
            since = self.waiting_since
            self.found_silence = since is not None and time.monotonic() - since > self._silence_max
            if self.found_silence or self._stop_reading.is_set():
                self._call.cancel()
                return
