from __future__ import annotations

import threading
import time
from typing import Callable, Iterable, Iterator, Optional, Protocol, Sequence, TypeVar

import grpc

from .client import StreamCall
from .retry import retry_wait_seconds

_Item = TypeVar("_Item")
Response = TypeVar("Response")

#: A stream without a message for this long is given up; a server sends one every 15 seconds.
SILENCE_MAX_SECONDS = 45.0

_POLL_SECONDS = 0.1


class FailedCall(Protocol):
    """What a grpc.RpcError tells."""

    def code(self) -> grpc.StatusCode: ...

    def details(self) -> Optional[str]: ...


class Broken(grpc.RpcError):
    """A stream that ended, fell silent or cannot be right, in the form of an error of gRPC."""

    def __init__(self, message: str, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> None:
        super().__init__(message)
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return str(self)

    def trailing_metadata(self) -> None:
        return None


def with_retries(
    attempt: Callable[[], Iterable[Sequence[_Item]]],
    goes_on_after: Callable[[grpc.RpcError], bool],
    stop: threading.Event,
    on_disconnect: Optional[Callable[[FailedCall, float], object]],
) -> Iterator[_Item]:
    """What ``attempt`` yields, and after a wait the same of the next attempt, for as long as it ``goes_on_after`` errors.

    Each batch, even an empty one, ends a row of failures.
    """
    failures = 0
    while not stop.is_set():
        try:
            for batch in attempt():
                failures = 0
                yield from batch
            return
        except grpc.RpcError as error:
            if stop.is_set():
                return
            if not goes_on_after(error):
                raise
            failures += 1
            wait = retry_wait_seconds(error, failures)
            if on_disconnect is not None:
                on_disconnect(error, wait)
            stop.wait(wait)


def watched(call: StreamCall[Response], stop: threading.Event, silence_max: float) -> Iterator[Response]:
    """The messages of one stream. Raises UNAVAILABLE when it is silent for too long."""
    watch = _Watch(call, stop, silence_max)
    watch.start()
    try:
        while True:
            watch.waiting_since = time.monotonic()
            message = next(call, None)
            # Only the time that we wait counts, not the time that the caller takes over a message.
            watch.waiting_since = None
            if message is None:
                return
            yield message
    except grpc.RpcError:
        if watch.found_silence:
            raise Broken(f"no message for {silence_max} s") from None
        raise
    finally:
        watch.done.set()
        call.cancel()


class _Watch(threading.Thread):
    """Cancels a call on which nothing arrives for too long, or that is to stop: a blocked reader cannot do so itself."""

    def __init__(self, call: grpc.Call, stop: threading.Event, silence_max: float) -> None:
        super().__init__(name="marketd-stream-watch", daemon=True)
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
