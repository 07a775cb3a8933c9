from __future__ import annotations

import re
import threading
from decimal import Decimal
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

import grpc

from .client import Client, StreamCall
from .depth_book import DepthBook
from .gen.datanode.api.v2.trading_data_pb2 import ObserveMarketsDepthUpdatesRequest
from .gen.marketd.history.v1.market_history_pb2 import (
    BlockPlace,
    GetMarketDepthAtRequest,
    GetMarketDepthAtResponse,
    MarketHistoryState,
    MarketHistoryStatus,
    ReplayMarketsDepthRequest,
    ReplayMarketsDepthResponse,
)
from .gen.vega.vega_pb2 import MarketDepthUpdate
from .quoted import quoted
from .retry import is_transient
from .stream import SILENCE_MAX_SECONDS, Broken, FailedCall, Response, watched, with_retries
from .times import Time, nanoseconds

#: The token that opens a stream at the newest block.
_NEWEST = "live"

#: A price is decimal text of at most 256 bits.
_PRICE = re.compile("[0-9]{1,78}")


class _BookAndUpdate(NamedTuple):
    #: After the update. The same object is changed again by the next update; a whole book is another object.
    book: DepthBook
    update: MarketDepthUpdate


class DepthChange(_BookAndUpdate):
    """A book that has changed, and the update that changed it: ``for book, update in read_depth(client)``."""

    #: The block that the book is of, with its time. None from a server without MarketHistoryService.
    block: Optional[BlockPlace]
    #: How the book's numbers are scaled, for scaled_price and scaled_size. None likewise.
    scale: Optional[MarketHistoryStatus]
    #: False while a replay is in the past.
    is_live: bool

    def __new__(
        cls,
        book: DepthBook,
        update: MarketDepthUpdate,
        block: Optional[BlockPlace],
        scale: Optional[MarketHistoryStatus],
        is_live: bool,
    ) -> DepthChange:
        change = super().__new__(cls, book, update)
        change.block, change.scale, change.is_live = block, scale, is_live
        return change


class PastBook(NamedTuple):
    """A market's order book at a time, and what belongs to it."""

    book: DepthBook
    #: Its block, last trade, and decimals, for scaled_price and scaled_size.
    response: GetMarketDepthAtResponse


def read_depth(
    client: Client,
    market_ids: Sequence[str] = (),
    *,
    stop: Optional[threading.Event] = None,
    silence_max_seconds: float = SILENCE_MAX_SECONDS,
    on_connect: Optional[Callable[[], object]] = None,
    on_disconnect: Optional[Callable[[FailedCall, float], object]] = None,
    on_status: Optional[Callable[[MarketHistoryStatus], object]] = None,
) -> Iterator[DepthChange]:
    """Order books as they change, for as long as the caller reads: first every market's whole book, then each change.

    When the stream breaks it is opened again, after a wait, and goes on with what changed meanwhile. Only where the
    server cannot tell that, it starts with whole books again. Read as slowly as you like: the server merges what you
    have not read yet.

    Without ``market_ids``: every market, those announced later included. ``stop`` ends the iterator from another
    thread; leaving the loop ends it too. ``on_connect`` is called when a stream has sent its first message, before its
    first change, on each connection; a grpc.RpcError that it raises is treated as the stream's. ``on_disconnect`` is
    called when the stream broke, with the error and the seconds until the next attempt; the books are out of date until
    the next ``on_connect``. ``on_status`` is called when a market's state or decimals are others, before the change of its
    book; the book of a market that is STALE is unknown until it is WHOLE again. Raises grpc.RpcError when trying again
    is of no use, such as NOT_FOUND for an unknown market.
    """
    reader = _DepthReader(client, market_ids, None, stop, silence_max_seconds, on_connect, on_disconnect, on_status)
    return reader.read()


def replay(
    client: Client,
    market_ids: Sequence[str] = (),
    *,
    from_time: Optional[Time] = None,
    until: Optional[Time] = None,
    speed: Optional[float] = None,
    every_update: bool = False,
    stop: Optional[threading.Event] = None,
    silence_max_seconds: float = SILENCE_MAX_SECONDS,
    on_connect: Optional[Callable[[], object]] = None,
    on_disconnect: Optional[Callable[[FailedCall, float], object]] = None,
    on_status: Optional[Callable[[MarketHistoryStatus], object]] = None,
) -> Iterator[DepthChange]:
    """The same as read_depth of a time in the past on, so that the code that reads it is the same.

    It starts with the books as of ``from_time``; without: with the oldest that are kept. With ``until`` it ends before
    the first block that is not earlier; without, it becomes live, and no change is missing or doubled between. Times
    are Unix nanoseconds, or a datetime with a time zone. ``speed`` is seconds of the past in a second, 0.01 to 1000,
    and 1 as it happened; without: as fast as the caller reads. ``every_update`` gives a change for each block, however
    slowly the caller reads; it needs ``until``. Raises grpc.RpcError, FAILED_PRECONDITION or OUT_OF_RANGE if that time
    is not kept.
    """
    past = ReplayMarketsDepthRequest(
        from_timestamp=None if from_time is None else nanoseconds(from_time),
        until_timestamp=None if until is None else nanoseconds(until),
        speed=None if speed is None else format(Decimal(str(speed)).normalize(), "f"),
    )
    if every_update:
        past.every_update = True
    reader = _DepthReader(client, market_ids, past, stop, silence_max_seconds, on_connect, on_disconnect, on_status)
    return reader.read()


def book_at(client: Client, market_id: str, time: Time) -> PastBook:
    """A market's order book as it was at a time: Unix nanoseconds, or a datetime with a time zone.

    For a block's height or stream sequence number call ``client.GetMarketDepthAt``. Raises grpc.RpcError,
    FAILED_PRECONDITION or OUT_OF_RANGE if that time is not kept.
    """
    response = client.GetMarketDepthAt(GetMarketDepthAtRequest(market_id=market_id, timestamp=nanoseconds(time)))
    number = response.sequence_number
    whole = MarketDepthUpdate(market_id=market_id, buy=response.buy, sell=response.sell, sequence_number=number)
    _check_prices(whole)
    book = DepthBook(market_id)
    book.apply(whole)
    return PastBook(book, response)


class _Message(NamedTuple):
    """What a stream said of one block, or of several that were merged."""

    update: Sequence[MarketDepthUpdate]
    status: Sequence[MarketHistoryStatus] = ()
    block: Optional[BlockPlace] = None
    caught_up: bool = False
    token: str = ""


class _DepthReader:
    """Books over any number of connections."""

    def __init__(
        self,
        client: Client,
        market_ids: Sequence[str],
        past: Optional[ReplayMarketsDepthRequest],
        stop: Optional[threading.Event],
        silence_max: float,
        on_connect: Optional[Callable[[], object]],
        on_disconnect: Optional[Callable[[FailedCall, float], object]],
        on_status: Optional[Callable[[MarketHistoryStatus], object]],
    ) -> None:
        self._client = client
        self._market_ids = market_ids
        self._past = past
        self._stop = stop or threading.Event()
        self._silence_max = silence_max
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._on_status = on_status
        self._is_live = past is None
        #: Of the last message whose changes are in the books; empty: there is none.
        self._token = ""
        #: A server had what is asked for.
        self._is_found = False
        self._books: Dict[str, DepthBook] = {}
        self._scales: Dict[str, MarketHistoryStatus] = {}

    def read(self) -> Iterator[DepthChange]:
        return with_retries(self._read_once, self._goes_on_after, self._stop, self._on_disconnect)

    def _read_once(self) -> Iterator[List[DepthChange]]:
        for message in self._messages():
            yield self._changes(message)

    def _goes_on_after(self, error: grpc.RpcError) -> bool:
        """Whether another connection can be of use. The live stream begins with whole books where it cannot go on."""
        # Another server had this time before.
        if error.code() == grpc.StatusCode.OUT_OF_RANGE and self._is_found and not self._is_live:
            return True
        is_damaged = error.code() == grpc.StatusCode.DATA_LOSS
        if is_transient(error) and (self._is_live or not is_damaged):
            if is_damaged:
                self._token = ""
            return True
        is_refused = error.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT)
        if not (self._is_live and self._token and is_refused):
            return False
        self._token = ""
        return True

    def _request(self) -> ReplayMarketsDepthRequest:
        request = ReplayMarketsDepthRequest(market_ids=self._market_ids)
        if not self._is_live and self._past is not None:
            request.MergeFrom(self._past)
            if self._token:
                request.ClearField("from_timestamp")
        if self._is_live or self._token:
            request.resume_token = self._token or _NEWEST
        return request

    def _messages(self) -> Iterator[_Message]:
        """The messages of one stream. It ends as the server ends a replay; raises when it ends otherwise."""
        if not self._token:
            self._books, self._scales = {}, {}
        try:
            yield from self._messages_of(self._client.ReplayMarketsDepth(self._request()), _Parts())
        except grpc.RpcError as error:
            if not self._is_live or error.code() != grpc.StatusCode.UNIMPLEMENTED:
                raise
            # An older server: every connection begins with whole books.
            self._token = ""
            request = ObserveMarketsDepthUpdatesRequest(market_ids=self._market_ids)
            call = self._client.ObserveMarketsDepthUpdates(request)
            yield from self._messages_of(call, lambda message: _Message(message.update))
        if self._is_live or self._past is None or not self._past.HasField("until_timestamp"):
            raise Broken("the stream ended")

    def _messages_of(
        self, call: StreamCall[Response], put: Callable[[Response], Optional[_Message]]
    ) -> Iterator[_Message]:
        is_first = True
        for part in watched(call, self._stop, self._silence_max):
            message = put(part)
            self._is_found = True
            if message is None:
                continue
            if is_first and self._on_connect is not None:
                self._on_connect()
            is_first = False
            yield message

    def _changes(self, message: _Message) -> List[DepthChange]:
        """Applies a whole message. Raises DATA_LOSS if it does not fit."""
        for status in message.status:
            self._scales[status.market_id] = status
            if status.state == MarketHistoryState.MARKET_HISTORY_STATE_STALE:
                self._books.pop(status.market_id, None)
            if self._on_status is not None:
                self._on_status(status)
        is_live = self._is_live or message.caught_up
        changes = [
            DepthChange(self._apply(update), update, message.block, self._scales.get(update.market_id), is_live)
            for update in message.update
        ]
        self._is_live, self._token = is_live, message.token
        return changes

    def _apply(self, update: MarketDepthUpdate) -> DepthBook:
        _check_prices(update)
        if update.previous_sequence_number == 0 or update.market_id not in self._books:
            self._books[update.market_id] = DepthBook(update.market_id)
        book = self._books[update.market_id]
        if book.apply(update) == "gap":
            raise Broken(f"updates of market {update.market_id} are missing", grpc.StatusCode.DATA_LOSS)
        return book


class _Parts:
    """Puts messages together from their parts: what has no block goes on in the next."""

    def __init__(self) -> None:
        self._update: List[MarketDepthUpdate] = []
        self._status: List[MarketHistoryStatus] = []
        self._caught_up = False

    def __call__(self, part: ReplayMarketsDepthResponse) -> Optional[_Message]:
        self._update.extend(part.update)
        self._status.extend(part.status)
        self._caught_up |= part.caught_up
        if not part.HasField("block"):
            return None
        whole = _Message(self._update, self._status, part.block, self._caught_up, part.resume_token)
        self._update, self._status, self._caught_up = [], [], False
        return whole


def _check_prices(update: MarketDepthUpdate) -> None:
    for level in (*update.buy, *update.sell):
        if _PRICE.fullmatch(level.price) is None:
            text = f"market {quoted(update.market_id)} has the price {quoted(level.price)}"
            raise Broken(text, grpc.StatusCode.DATA_LOSS)
