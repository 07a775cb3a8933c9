from __future__ import annotations

from typing import Callable, Iterator, Optional, Protocol, TypeVar

from .gen.datanode.api.v2.trading_data_pb2 import PageInfo, Pagination
from .quoted import quoted


class _Page(Protocol):
    """The response to a request for a page, whatever it lists."""

    @property
    def page_info(self) -> PageInfo: ...


_P = TypeVar("_P", bound=_Page)


class ListDoesNotAdvance(Exception):
    """The cursors of a list lead in a circle: the server is wrong."""


def pages(read: Callable[[Pagination], _P], pagination: Pagination) -> Iterator[_P]:
    """The pages of a list until its end, each read when it is needed, from behind the cursor ``after`` on.

    Raises ListDoesNotAdvance if the server's cursors lead in a circle.
    """
    check = _CursorCheck(pagination.after if pagination.HasField("after") else None)
    while True:
        page = read(pagination)
        # A page can be short, or even empty, and not the last.
        is_last, after = not page.page_info.has_next_page, page.page_info.end_cursor
        if not is_last:
            check.advance(after)
        yield page
        if is_last:
            return
        pagination.after = after


class _CursorCheck:
    """Finds out that a list leads in a circle. It keeps one cursor (Brent's algorithm): the first, second, fourth,
    eighth ... of the list. A circle comes back to one of them.
    """

    def __init__(self, start: Optional[str]) -> None:
        self._kept = start
        self._steps = 0
        self._steps_max = 1

    def advance(self, cursor: str) -> None:
        """Takes the cursor of the next page."""
        if cursor in ("", self._kept):
            raise ListDoesNotAdvance(f"the list does not advance: it leads back to the cursor {quoted(cursor)}")
        self._steps += 1
        if self._steps == self._steps_max:
            self._kept = cursor
            self._steps = 0
            self._steps_max *= 2
