from __future__ import annotations

import json
from typing import Iterator, Optional, Protocol, Sequence, Tuple, TypeVar, Union
from urllib.parse import urlsplit

import grpc

from .gen.datanode.api.v2 import trading_data_pb2 as messages
from .gen.datanode.api.v2.trading_data_pb2_grpc import TradingDataServiceStub
from .gen.marketd.history.v1 import market_history_pb2 as history
from .gen.marketd.history.v1.market_history_pb2_grpc import MarketHistoryServiceStub

#: The largest message that is read, in bytes. The whole book of a million levels a side has 42 MB.
MESSAGE_MAX_BYTES = 64 * 1024 * 1024

_OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_MAX_BYTES),
    # read_depth waits between attempts; gRPC's own back-off, up to two minutes, would come on top.
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # A connection whose other end is gone without a word would be used again by each further call. It ends after both
    # times, before read_depth gives up its stream. gRPC 1.76 to 1.85 do not heed grpc.keepalive_timeout_ms.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
]

_Request = TypeVar("_Request", contravariant=True)
_Response = TypeVar("_Response", covariant=True)

Metadata = Sequence[Tuple[str, Union[str, bytes]]]


class UnaryCall(Protocol[_Response]):
    """A call with one response, which may not be there yet."""

    def result(self, timeout: Optional[float] = None) -> _Response:
        """Raises grpc.RpcError, or grpc.FutureTimeoutError if there is no response after ``timeout`` seconds."""

    def cancel(self) -> bool: ...

    def initial_metadata(self) -> Metadata: ...


class UnaryMethod(Protocol[_Request, _Response]):
    """A method with one response, such as ``client.GetMarket``."""

    def __call__(
        self, request: _Request, timeout: Optional[float] = None, metadata: Optional[Metadata] = None
    ) -> _Response:
        """Raises grpc.RpcError. ``timeout`` is in seconds; default: none."""

    def with_call(
        self, request: _Request, timeout: Optional[float] = None, metadata: Optional[Metadata] = None
    ) -> Tuple[_Response, grpc.Call]:
        """The same, and the call with its metadata."""

    def future(
        self, request: _Request, timeout: Optional[float] = None, metadata: Optional[Metadata] = None
    ) -> UnaryCall[_Response]:
        """Returns at once."""


class StreamMethod(Protocol[_Request, _Response]):
    """A method with a stream of responses, such as ``client.ExportLedgerEntries``."""

    def __call__(
        self, request: _Request, timeout: Optional[float] = None, metadata: Optional[Metadata] = None
    ) -> StreamCall[_Response]:
        """Returns at once. ``timeout`` is in seconds, for the whole stream; default: none."""


class ExportChunk(Protocol):
    """The fields of a ``google.api.HttpBody``."""

    @property
    def content_type(self) -> str: ...

    @property
    def data(self) -> bytes: ...


class StreamCall(Protocol[_Response]):
    """A stream of responses. Iterating raises grpc.RpcError."""

    def __iter__(self) -> Iterator[_Response]: ...

    def __next__(self) -> _Response: ...

    def cancel(self) -> bool: ...

    def initial_metadata(self) -> Metadata:
        """Waits until they are there."""

    def trailing_metadata(self) -> Optional[Metadata]:
        """Waits until the stream has ended."""


class Client(TradingDataServiceStub, MarketHistoryServiceStub):
    """A method for each operation of both services, over gRPC: ``client.GetMarket(GetMarketRequest(market_id=...))``.

    Takes the URL of a server, ``http://host:port`` or ``https://host:port``, and connects when it is first used.
    Close it, or use it in a ``with`` statement. Threads may share it.
    """

    GetMarket: UnaryMethod[messages.GetMarketRequest, messages.GetMarketResponse]
    GetLatestMarketDepth: UnaryMethod[messages.GetLatestMarketDepthRequest, messages.GetLatestMarketDepthResponse]
    GetLatestMarketData: UnaryMethod[messages.GetLatestMarketDataRequest, messages.GetLatestMarketDataResponse]
    ListLatestMarketData: UnaryMethod[messages.ListLatestMarketDataRequest, messages.ListLatestMarketDataResponse]
    ObserveMarketsDepthUpdates: StreamMethod[
        messages.ObserveMarketsDepthUpdatesRequest, messages.ObserveMarketsDepthUpdatesResponse
    ]
    ListLedgerEntries: UnaryMethod[messages.ListLedgerEntriesRequest, messages.ListLedgerEntriesResponse]
    ExportLedgerEntries: StreamMethod[messages.ExportLedgerEntriesRequest, ExportChunk]
    ListERC20MultiSigSignerRemovedBundles: UnaryMethod[
        messages.ListERC20MultiSigSignerRemovedBundlesRequest, messages.ListERC20MultiSigSignerRemovedBundlesResponse
    ]
    ListMarkets: UnaryMethod[messages.ListMarketsRequest, messages.ListMarketsResponse]
    ObserveMarketsData: StreamMethod[messages.ObserveMarketsDataRequest, messages.ObserveMarketsDataResponse]
    ListAssets: UnaryMethod[messages.ListAssetsRequest, messages.ListAssetsResponse]
    GetAsset: UnaryMethod[messages.GetAssetRequest, messages.GetAssetResponse]
    ListTrades: UnaryMethod[messages.ListTradesRequest, messages.ListTradesResponse]
    ObserveTrades: StreamMethod[messages.ObserveTradesRequest, messages.ObserveTradesResponse]
    GetLastTrade: UnaryMethod[messages.GetLastTradeRequest, messages.GetLastTradeResponse]
    ListCandleIntervals: UnaryMethod[messages.ListCandleIntervalsRequest, messages.ListCandleIntervalsResponse]
    ListCandleData: UnaryMethod[messages.ListCandleDataRequest, messages.ListCandleDataResponse]
    ObserveCandleData: StreamMethod[messages.ObserveCandleDataRequest, messages.ObserveCandleDataResponse]
    ListAccounts: UnaryMethod[messages.ListAccountsRequest, messages.ListAccountsResponse]
    ListBalanceChanges: UnaryMethod[messages.ListBalanceChangesRequest, messages.ListBalanceChangesResponse]
    GetMarketDepthAt: UnaryMethod[history.GetMarketDepthAtRequest, history.GetMarketDepthAtResponse]
    ListMarketDepthChanges: UnaryMethod[history.ListMarketDepthChangesRequest, history.ListMarketDepthChangesResponse]
    ReplayMarketsDepth: StreamMethod[history.ReplayMarketsDepthRequest, history.ReplayMarketsDepthResponse]

    def __init__(self, url: str) -> None:
        """Raises ValueError unless it is a URL of http or https."""
        scheme, host = _address_of(url)
        if scheme == "https":
            self._channel = grpc.secure_channel(host, grpc.ssl_channel_credentials(), _OPTIONS)
        else:
            self._channel = grpc.insecure_channel(host, _OPTIONS)
        TradingDataServiceStub.__init__(self, self._channel)
        MarketHistoryServiceStub.__init__(self, self._channel)

    def close(self) -> None:
        """Ends all calls."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _address_of(url: str) -> Tuple[str, str]:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{json.dumps(url)} is not the URL of a server: it looks like http://localhost:8080")
    if parts.path not in ("", "/"):
        raise ValueError(f"{json.dumps(url)} has a path: gRPC knows none, so give the address without it")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return parts.scheme, f"{host}:{port}"
