from __future__ import annotations

import threading
from typing import Callable, Counter, Generator, Iterable, Iterator, List, Optional

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
from .retry import is_of_other_chain, is_transient
from .stream import SILENCE_MAX_SECONDS, Broken, FailedCall, watched, with_retries
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

    It lists what there is, opens the stream, and lists once more up to the block at which the stream began. When the
    connection breaks, it does the same again after a wait, from the time of the last trade on. Of that time it leaves
    out as many trades of each id as it has given before: venues may use an id more than once. So nothing is missing or
    doubled, at any server of the database, and also if you read slowly. In a market that is quiet for longer than trades
    are kept, it goes on if the market's last trade shows that nothing was missed.

    ``stop`` ends the iterator from another thread; leaving the loop ends it too. ``on_disconnect`` is called when the
    connection broke, with the error and the seconds until the next attempt. Raises grpc.RpcError when trying again is of
    no use: NOT_FOUND for an unknown market, FAILED_PRECONDITION with the reason TRADES_NOT_RETAINED if trades from that
    time on are not kept, UNAVAILABLE with the reason CHAIN_CHANGED when the database holds another chain.
    """
    stop = stop or threading.Event()
    start = None if from_time is None else nanoseconds(from_time)
    reader = _TradeReader(client, market_id, start, stop, silence_max_seconds)
    return with_retries(reader.read, _goes_on_after, stop, on_disconnect)


def _goes_on_after(error: grpc.RpcError) -> bool:
    return is_transient(error) and error.code() != grpc.StatusCode.DATA_LOSS and not is_of_other_chain(error)


class _TradeReader:
    """Trades over any number of connections."""

    def __init__(
        self, client: Client, market_id: str, start: Optional[int], stop: threading.Event, silence_max: float
    ) -> None:
        self._client = client
        self._market_ids = [market_id]
        self._stop = stop
        self._silence_max = silence_max
        #: Trades from this time on are to be read, but for those that were. Blocks can have the same time.
        self._timestamp = start
        #: How many of each id were given, of this time.
        self._given: Counter[str] = Counter()
        #: How many of each id the list or stream that is read has had, of this time.
        self._had: Counter[str] = Counter()
        #: Whether everything that there was has been read once.
        self._is_going_on = False

    def read(self) -> Iterator[List[Trade]]:
        """The trades of one connection. It raises when the connection breaks, and does not end."""
        # Without a stream at first: a server ends one whose reader is busy with the past for minutes.
        yield from self._list(0)
        call = self._client.ObserveTrades(ObserveTradesRequest(market_ids=self._market_ids))
        is_first = True
        for message in watched(call, self._stop, self._silence_max):
            if is_first:
                started_at = _height_of(call.initial_metadata())
                reached = yield from self._list(started_at)
                # The stream goes on where the list ends, or has some of its trades again.
                if reached != started_at or self._had != self._given:
                    self._had.clear()
            is_first = False
            yield self._unread(message.trades)
        raise Broken("the stream ended")

    def _list(self, height: int) -> Generator[List[Trade], None, int]:
        """Trades up to a block, or later ones. Returns the block that they reach.

        Raises UNAVAILABLE if the server has not seen the block yet.
        """
        self._had.clear()
        request = ListTradesRequest(market_ids=self._market_ids)
        if self._timestamp is not None:
            request.date_range.start_timestamp = self._timestamp

        reached = 0

        def read(pagination: Pagination) -> TradeConnection:
            nonlocal reached
            request.pagination.CopyFrom(pagination)
            try:
                response, call = self._client.ListTrades.with_call(request, timeout=self._silence_max)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.FAILED_PRECONDITION or not self._has_last():
                    raise
                # What is kept is newer than that time.
                request.ClearField("date_range")
                response, call = self._client.ListTrades.with_call(request, timeout=self._silence_max)
            reached = _height_of(call.initial_metadata())
            return response.trades

        for page in pages(read, Pagination(newest_first=False)):
            unread = self._unread(edge.node for edge in page.edges)
            if unread:
                yield unread
            if self._stop.is_set():
                return reached
        self._is_going_on = True
        if reached < height:
            raise Broken(f"trades are listed up to block {reached}, and streamed after {height}")
        return reached

    def _has_last(self) -> bool:
        """Whether the market's last trade was given, so that none of those that are not kept any more is missing."""
        if not self._is_going_on or self._timestamp is None:
            return False
        request = GetLastTradeRequest(market_id=self._market_ids[0])
        try:
            trade = self._client.GetLastTrade(request, timeout=self._silence_max).trade
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise
            return True
        if trade.timestamp == self._timestamp:
            return trade.id in self._given
        return trade.timestamp < self._timestamp

    def _unread(self, trades: Iterable[Trade]) -> List[Trade]:
        """Those that were not given before."""
        return [trade for trade in trades if self._is_unread(trade)]

    def _is_unread(self, trade: Trade) -> bool:
        if self._timestamp is None or trade.timestamp > self._timestamp:
            self._timestamp = trade.timestamp
            self._given.clear()
            self._had.clear()
        if trade.timestamp < self._timestamp:
            return False
        self._had[trade.id] += 1
        if self._had[trade.id] <= self._given[trade.id]:
            return False
        self._given[trade.id] += 1
        return True


def _height_of(metadata: Optional[Metadata]) -> int:
    """The newest block of a response: of a list its own, of a stream that of its start. 0: there is none."""
    return int(dict(metadata or ()).get("x-block-height", 0))
