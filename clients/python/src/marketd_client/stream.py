from __future__ import annotations

import queue
import threading
import time
from typing import Callable, Generic, Iterable, Iterator, Optional, Protocol, Sequence, TypeVar, Union

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from .client import Metadata, StreamCall, UnaryCall
from .retry import retry_wait_seconds

_Item = TypeVar("_Item")
Response = TypeVar("Response")

#: A stream without a message for this long is given up; a server sends one every 15 seconds.
SILENCE_MAX_SECONDS = 45.0

#: How soon ``stop`` ends a stream on which nothing arrives.
_POLL_SECONDS = 0.1

#: Messages that are read before the caller takes them.
_AHEAD_MAX = 8


class FailedCall(Protocol):
    """What a grpc.RpcError tells."""

    def code(self) -> grpc.StatusCode: ...

    def details(self) -> Optional[str]: ...


class Broken(grpc.RpcError):
    """A stream that ended, fell silent or cannot be right, in the form of an error of gRPC."""

    def __init__(
        self, message: str, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE, reason: Optional[str] = None
    ) -> None:
        super().__init__(message)
        self._code = code
        self._reason = reason

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return str(self)

    def trailing_metadata(self) -> Optional[Metadata]:
        if self._reason is None:
            return None
        status = Status(code=self._code.value[0], message=str(self))
        status.details.add().Pack(ErrorInfo(reason=self._reason))
        return (("grpc-status-details-bin", status.SerializeToString()),)


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
    # Whether the caller has an item. An error is then the caller's, thrown into this generator (``yield from`` does so).
    is_giving = False
    while not stop.is_set():
        try:
            for batch in attempt():
                failures = 0
                is_giving = True
                yield from batch
                is_giving = False
            return
        except grpc.RpcError as error:
            if is_giving:
                raise
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
    """The messages of one stream, until it ends or ``stop`` is set. Raises UNAVAILABLE when it is silent for too long."""
    pump = _Pump(call)
    pump.start()
    try:
        while True:
            # Only the time that we wait counts, not the time that the caller takes over a message.
            since = time.monotonic()
            while (arrived := pump.take(_POLL_SECONDS)) is None:
                if stop.is_set():
                    return
                if time.monotonic() - since > silence_max:
                    raise Broken(f"no message for {silence_max} s")
            if isinstance(arrived, _End):
                if arrived.error is not None:
                    raise arrived.error
                return
            if stop.is_set():
                return
            yield arrived
    finally:
        pump.give_up()


def response_of(call: UnaryCall[Response], stop: threading.Event) -> Response:
    """The response of a call. Raises UNAVAILABLE when ``stop`` is set before it is there."""
    while True:
        try:
            return call.result(_POLL_SECONDS)
        except grpc.FutureTimeoutError:
            if stop.is_set():
                call.cancel()
                raise Broken("stopped") from None


class _End:
    """The end of a stream."""

    def __init__(self, error: Optional[Exception]) -> None:
        self.error = error


class _Pump(threading.Thread, Generic[Response]):
    """Reads a call for another thread: nothing could interrupt that in ``next``, which may hang though it is cancelled."""

    def __init__(self, call: StreamCall[Response]) -> None:
        super().__init__(name="marketd-stream", daemon=True)
        self._call = call
        self._arrived: "queue.Queue[Union[Response, _End]]" = queue.Queue(_AHEAD_MAX)
        self._given_up = threading.Event()

    def take(self, wait_seconds: float) -> Union[Response, _End, None]:
        """What arrived next, or None after a while."""
        try:
            return self._arrived.get(timeout=wait_seconds)
        except queue.Empty:
            return None

    def give_up(self) -> None:
        """Ends the call, and this thread as soon as the call lets it go."""
        self._given_up.set()
        self._call.cancel()
        while self.take(0) is not None:
            pass

    def run(self) -> None:
        end = _End(None)
        try:
            for message in self._call:
                self._arrived.put(message)
                # A full queue was emptied by now.
                if self._given_up.is_set():
                    return
        except Exception as error:
            end = _End(error)
        self._arrived.put(end)
