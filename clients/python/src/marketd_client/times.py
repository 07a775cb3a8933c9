from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Union

#: Unix nanoseconds, or a datetime with a time zone.
Time = Union[int, datetime]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def nanoseconds(time: Time) -> int:
    return time if isinstance(time, int) else (time - _EPOCH) // timedelta(microseconds=1) * 1000
