from __future__ import annotations

import threading
from typing import Callable, Iterator, List, Optional, Tuple

import grpc

from .client import Client, Metadata
from .gen.datanode.api.v2.trading_data_pb2 import (
    GetLastTradeRequest,
    ListTradesRequest,
    ObserveTradesRequest,
    Pagination,
    TradeConnection,
)
from .gen.vega.vega_pb2 import Trade
from .pages import pages
from .retry import CHAIN_CHANGED, is_of_other_chain, is_transient
from .stream import SILENCE_MAX_SECONDS, Broken, FailedCall, response_of, watched, with_retries
from .times import Time, nanoseconds


def trades(
    client: Client,
    market_id: str,
    from_time: Optional[Time] = None,
    *,
    stop: Optional[threading.Event] = None,
    silence_max_seconds: float = SILENCE_MAX_SECONDS,
    on_disconnect: Optional[Callable[[FailedCall, float], object]] = None,
) -> Iterator[Trade]:
    """A market's trades from a time on, oldest first, and then as they are made, for as long as the caller reads.

    Each comes once, in the order of the network. Without ``from_time``: from the first trade that is kept. It is Unix
    nanoseconds, or a datetime with a time zone.

    It lists what there is, opens the stream, and goes on with the list up to the time at which the stream began; of the
    stream it gives what is later. When the connection breaks, it does the same again after a wait, from the time of the
    last trade on. Of that time it leaves out as many trades as it has given before. So nothing is missing or doubled, at
    any server of the database, and also if you read slowly, or if a venue uses an id more than once. In a market that is
    quiet for longer than trades are kept, it goes on if the market's last trade is the last one that was given.

    ``stop`` ends the iterator from another thread; leaving the loop ends it too. ``on_disconnect`` is called when the
    connection broke, with the error and the seconds until the next attempt. Raises grpc.RpcError when trying again is of
    no use: NOT_FOUND for an unknown market, FAILED_PRECONDITION with the reason TRADES_NOT_RETAINED if trades from that
    time on are not kept, UNAVAILABLE with the reason CHAIN_CHANGED when the database holds another chain.
    """
    stop = stop or threading.Event()
    start = None if from_time is None else nanoseconds(from_time)
    reader = _TradeReader(client, market_id, start, stop, silence_max_seconds)
    return with_retries(reader.read, reader.goes_on_after, stop, on_disconnect)


class _Place:
    """How far the list of one connection was read."""

    def __init__(self, start: int, known: int) -> None:
        #: The time of the last trade that was given before it. Its first ``known`` trades of that time are left out.
        self.start = start
        self.known = known
        #: Trades up to this time are left out.
        self.floor: Optional[int] = None
        self.after: Optional[str] = None
        #: The newest time that the list is known to have reached. It has all trades of earlier times.
        self.reached = 0
        #: Of the newest block that the list has had since the stream began.
        self.height = 0


class _TradeReader:
    """Trades over any number of connections."""

    def __init__(
        self, client: Client, market_id: str, start: Optional[int], stop: threading.Event, silence_max: float
    ) -> None:
        self._client = client
        self._market_ids = [market_id]
        self._stop = stop
        self._silence_max = silence_max
        #: Trades from this time on are to be read, but for the first ones, which were. Blocks can have the same time.
        self._timestamp = start
        #: How many of this time were given, and the last one.
        self._given = 0
        self._last: Optional[Trade] = None
        #: Whether everything that there was has been read once.
        self._is_going_on = False
        #: Whether a list is read, and not the stream.
        self._is_listing = False

    def goes_on_after(self, error: grpc.RpcError) -> bool:
        """Whether to try again. What a stream has no more may have been given: the next list tells."""
        if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
            return not self._is_listing
        return is_transient(error) and error.code() != grpc.StatusCode.DATA_LOSS and not is_of_other_chain(error)

    def read(self) -> Iterator[List[Trade]]:
        """The trades of one connection. It raises when the connection breaks, and does not end."""
        place = _Place(self._timestamp or 0, self._given)
        # Without a stream at first: a server ends one whose reader is busy with the past for minutes.
        yield from self._list(place, None)
        call = self._client.ObserveTrades(ObserveTradesRequest(market_ids=self._market_ids))
        until: Optional[int] = None
        start_height = 0
        overlaps = False
        place.height = -1

        def is_listed() -> bool:
            # Blocks of one time can be on both sides of the stream's start. If it has a trade of such a block, only a list
            # that reaches a later time has all of that time.
            has_start = place.height >= start_height and place.known == 0 and not overlaps
            return place.reached > (until or 0) or (place.reached == until and has_start)

        for message in watched(call, self._stop, self._silence_max):
            if until is None:
                start_height, started = _block_of(call.initial_metadata())
                until = max(started, self._timestamp or 0)
            streamed = [trade for trade in message.trades if trade.timestamp > until]
            overlaps = overlaps or len(streamed) < len(message.trades)
            if not is_listed():
                yield from self._list(place, until)
            if streamed and not is_listed():
                raise Broken(f"trades are streamed after {until}, and not listed up to there")
            self._give(streamed)
            yield streamed
        raise Broken("the stream ended")

    def _list(self, place: _Place, until: Optional[int]) -> Iterator[List[Trade]]:
        """Goes on with a list, up to the newest trade, or to a time. Raises UNAVAILABLE if the server has another chain."""
        self._is_listing = True
        first = Pagination(newest_first=False, after=place.after)
        for page in pages(lambda pagination: self._page(place, pagination), first):
            unread = []
            for edge in page.edges:
                trade = edge.node
                place.reached = max(place.reached, trade.timestamp)
                if until is not None and trade.timestamp > until:
                    break
                place.after = edge.cursor
                if self._is_unread(place, trade):
                    unread.append(trade)
            self._give(unread)
            if unread:
                yield unread
            if self._stop.is_set() or (until is not None and place.reached > until):
                break
        if place.known > 0 and place.reached > place.start:
            raise _gone()
        self._is_going_on = True
        self._is_listing = False

    def _page(self, place: _Place, pagination: Pagination) -> TradeConnection:
        def ask(request: ListTradesRequest) -> TradeConnection:
            call = self._client.ListTrades.future(request, timeout=self._silence_max)
            trades = response_of(call, self._stop).trades
            # How far the list reaches is told by its last page.
            if not trades.page_info.has_next_page:
                place.height, time = _block_of(call.initial_metadata())
                place.reached = max(place.reached, time)
            return trades

        request = ListTradesRequest(market_ids=self._market_ids, pagination=pagination)
        if not pagination.HasField("after") and self._timestamp is not None:
            request.date_range.start_timestamp = place.start
        try:
            return ask(request)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.FAILED_PRECONDITION or not self._has_last():
                raise
            # All that was given is older than what is kept, but for blocks of that time.
            place.known = 0
            place.floor = self._timestamp if self._given > 0 else None
            return ask(ListTradesRequest(market_ids=self._market_ids, pagination=Pagination(newest_first=False)))

    def _has_last(self) -> bool:
        """Whether the market's last trade was given, so that none of those that are not kept any more is missing.

        Raises UNAVAILABLE if the server lacks those that were given.
        """
        if not self._is_going_on or self._timestamp is None:
            return False
        request = GetLastTradeRequest(market_id=self._market_ids[0])
        trade: Optional[Trade] = None
        try:
            trade = response_of(self._client.GetLastTrade.future(request, timeout=self._silence_max), self._stop).trade
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise
        is_before = trade is None or trade.timestamp < self._timestamp
        if is_before and self._given > 0:
            raise _gone()
        # Others can have its id and its time.
        return is_before or trade == self._last

    def _is_unread(self, place: _Place, trade: Trade) -> bool:
        """Whether a trade of a list was not given before. Raises UNAVAILABLE if those that were are not there."""
        if place.known == 0:
            return place.floor is None or trade.timestamp > place.floor
        place.known -= 1
        if trade.timestamp != place.start or (place.known == 0 and trade != self._last):
            raise _gone()
        return False

    def _give(self, trades: List[Trade]) -> None:
        for trade in trades:
            self._given = self._given + 1 if trade.timestamp == self._timestamp else 1
            self._timestamp = trade.timestamp
        if trades:
            # A copy: the caller may change what it is given.
            self._last = Trade()
            self._last.CopyFrom(trades[-1])


def _gone() -> Broken:
    text = "the trades that were read are not in the database any more: it holds another chain"
    return Broken(text, reason=CHAIN_CHANGED)


def _block_of(metadata: Optional[Metadata]) -> Tuple[int, int]:
    """Height and time of the newest block of a response: of a list its own, of a stream its start. 0: there is none."""
    values = dict(metadata or ())
    return int(values.get("x-block-height", 0)), int(values.get("x-block-timestamp", 0))
