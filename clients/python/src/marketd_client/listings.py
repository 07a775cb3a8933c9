from __future__ import annotations

from typing import Iterator, Literal, Optional

from .client import Client
from .gen.datanode.api.v2.trading_data_pb2 import (
    AssetsConnection,
    Candle,
    CandleDataConnection,
    ListAssetsRequest,
    ListCandleDataRequest,
    ListMarketsRequest,
    MarketConnection,
    Pagination,
)
from .gen.vega.assets_pb2 import Asset
from .gen.vega.markets_pb2 import Market
from .pages import pages
from .times import Time, nanoseconds

#: The period of a candle; ``block``: a candle for each block.
CandleInterval = Literal["block", "1 minute", "5 minutes", "15 minutes", "1 hour", "6 hours", "1 day"]


def markets(client: Client, *, include_settled: bool = True, page_size: int = 1000) -> Iterator[Market]:
    """Every market that the network announced, by id, a page at a time.

    With ``include_settled=False``: without settled and closed ones. Raises grpc.RpcError when a page cannot be read.
    """

    def read(pagination: Pagination) -> MarketConnection:
        return client.ListMarkets(ListMarketsRequest(pagination=pagination, include_settled=include_settled)).markets

    for page in pages(read, Pagination(first=page_size)):
        for edge in page.edges:
            yield edge.node


def assets(client: Client, *, page_size: int = 1000) -> Iterator[Asset]:
    """Every asset that the network announced, by id, a page at a time. Raises grpc.RpcError as ``markets``."""

    def read(pagination: Pagination) -> AssetsConnection:
        return client.ListAssets(ListAssetsRequest(pagination=pagination)).assets

    for page in pages(read, Pagination(first=page_size)):
        for edge in page.edges:
            yield edge.node


def candles(
    client: Client,
    market_id: str,
    interval: CandleInterval,
    from_time: Optional[Time] = None,
    until: Optional[Time] = None,
    *,
    page_size: int = 1000,
) -> Iterator[Candle]:
    """A market's candles whose periods begin from a time on and before another, oldest first, a page at a time.

    The running one is included; periods without trades have none. Without ``from_time``: from the first candle that is
    kept. Without ``until``: up to the running one. Times are Unix nanoseconds, or a datetime with a time zone.
    ``scaled_price`` and ``scaled_size`` scale the numbers.

    Raises grpc.RpcError when a page cannot be read: go on from the ``start`` of the last candle, whose period may not
    have ended. NOT_FOUND says that the market is unknown, FAILED_PRECONDITION with the reason TRADES_NOT_RETAINED that
    ``from_time`` is before what is kept.
    """
    request = ListCandleDataRequest(candle_id=f"trades_candle_{interval.replace(' ', '_')}_{market_id}")
    if from_time is not None:
        request.from_timestamp = nanoseconds(from_time)
    if until is not None:
        request.to_timestamp = nanoseconds(until)

    def read(pagination: Pagination) -> CandleDataConnection:
        request.pagination.CopyFrom(pagination)
        return client.ListCandleData(request).candles

    for page in pages(read, Pagination(first=page_size, newest_first=False)):
        for edge in page.edges:
            yield edge.node
