from __future__ import annotations

from urllib.parse import urlsplit

import grpc

from .gen.datanode.api.v2.trading_data_pb2_grpc import TradingDataServiceStub

_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    # read_depth waits between attempts; gRPC's own back-off, up to two minutes, would come on top.
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 5_000),
]


class Client(TradingDataServiceStub):
    """A method for each of the eight operations, over gRPC: ``client.GetMarket(GetMarketRequest(market_id=...))``.

    Takes the URL of a server, ``http://host:port`` or ``https://host:port``, and connects when it is first used.
    Close it, or use it in a ``with`` statement. Threads may share it.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise ValueError(f"{url!r} is not http://host:port or https://host:port")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        if parts.scheme == "https":
            self._channel = grpc.secure_channel(f"{host}:{port}", grpc.ssl_channel_credentials(), _OPTIONS)
        else:
            self._channel = grpc.insecure_channel(f"{host}:{port}", _OPTIONS)
        super().__init__(self._channel)

    def close(self) -> None:
        """Ends all calls."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
