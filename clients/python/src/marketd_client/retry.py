from __future__ import annotations

import random
from typing import List, Optional, Type, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

#: The wait after a first failure. It doubles with each further failure in a row, up to WAIT_MAX_SECONDS.
FIRST_WAIT_SECONDS = 0.25
#: The longest wait of our own choice.
WAIT_MAX_SECONDS = 30.0
#: The longest wait that a server can ask for.
ASKED_WAIT_MAX_SECONDS = 600.0

#: The reason of errors of a server whose database holds another chain now.
CHAIN_CHANGED = "CHAIN_CHANGED"

_Detail = TypeVar("_Detail", bound=Message)

_DOUBLINGS_MAX = 16
#: What gRPC says of a message that is too large.
_TOO_LARGE = "eceived message larger than max"
_PERMANENT_CODES = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.UNAUTHENTICATED,
    }
)


def is_transient(error: grpc.RpcError) -> bool:
    """Whether the same call can succeed later.

    False for mistakes of the caller, such as an unknown market, and for messages that are too large.
    """
    if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in (error.details() or ""):
        return False
    return error.code() not in _PERMANENT_CODES


def is_of_other_chain(error: grpc.RpcError) -> bool:
    """Whether the server's database holds another chain now, so that nothing that was read goes on there."""
    return any(info.reason == CHAIN_CHANGED for info in _details(error, ErrorInfo))


def retry_wait_seconds(error: grpc.RpcError, failures: int, jitter: Optional[float] = None) -> float:
    """How long to wait after a failure.

    What the server asked for (``RetryInfo``, or ``Retry-After`` in seconds), and on top of it an exponential back-off,
    of which a random half is left out so that clients do not return all at once.

    ``failures`` counts failures in a row, this one included. ``jitter`` is from 0 to 1; default: random.
    """
    back_off = min(WAIT_MAX_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(failures - 1, _DOUBLINGS_MAX))
    part = random.random() if jitter is None else jitter
    return min(ASKED_WAIT_MAX_SECONDS, _asked_seconds(error)) + back_off * (0.5 + part / 2)


def _asked_seconds(error: grpc.RpcError) -> float:
    for info in _details(error, RetryInfo):
        return max(0.0, info.retry_delay.seconds + info.retry_delay.nanos / 1e9)
    header = dict(error.trailing_metadata() or ()).get("retry-after", "")
    return float(header) if header.isdecimal() else 0.0


def _details(error: grpc.RpcError, kind: Type[_Detail]) -> List[_Detail]:
    """The error's details of a type. Those that cannot be read are none."""
    status = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    details = []
    try:
        for detail in Status.FromString(status).details:
            message = kind()
            if detail.Unpack(message):
                details.append(message)
    except DecodeError:
        pass
    return details
