from __future__ import annotations

import hashlib
import re
from typing import Callable, Iterator, NamedTuple, Optional

from .client import Client
from .gen.datanode.api.v2.trading_data_pb2 import (
    AggregatedLedgerEntriesConnection,
    AggregatedLedgerEntriesEdge,
    DateRange,
    ExportLedgerEntriesRequest,
    LedgerEntryFilter,
    ListLedgerEntriesRequest,
    Pagination,
)
from .pages import pages
from .quoted import quoted

#: The longest row of an export that is read, in bytes; one with ids of 128 characters has less than 2 KiB.
ROW_MAX_BYTES = 64 * 1024


def ledger_entries(
    client: Client,
    filter: Optional[LedgerEntryFilter] = None,
    *,
    date_range: Optional[DateRange] = None,
    newest_first: bool = True,
    page_size: int = 1000,
    after: Optional[str] = None,
) -> Iterator[AggregatedLedgerEntriesEdge]:
    """Every ledger entry that is selected, each exactly once, a page at a time; also while new entries arrive.

    An edge holds the entry, ``node``, and its ``cursor``: given as ``after``, the list goes on behind it. No page is
    fetched before it is needed. ``page_size`` is from 1 to 5000. Raises grpc.RpcError when a page cannot be read, and
    ListDoesNotAdvance if the server's cursors lead in a circle.
    """

    def read(pagination: Pagination) -> AggregatedLedgerEntriesConnection:
        request = ListLedgerEntriesRequest(filter=filter, date_range=date_range, pagination=pagination)
        return client.ListLedgerEntries(request).ledger_entries

    for page in pages(read, Pagination(first=page_size, after=after, newest_first=newest_first)):
        yield from page.edges


class ExportSummary(NamedTuple):
    """What a file holds, as the server said and as was counted here."""

    #: Ledger entries, the header line not counted.
    rows: int
    #: By how much the party's holdings of the asset changed: an integer scaled by the asset's decimals.
    sum_of_effects: int
    #: Of all bytes of the file, in lower-case hexadecimal.
    sha256: str


class ExportDiffers(Exception):
    """What arrived is not what the server says it sent, or it did not say so. What was written is worth nothing."""


def export_ledger(
    client: Client, request: ExportLedgerEntriesRequest, write: Callable[[bytes], object]
) -> ExportSummary:
    """Exports the ledger entries of a party and an asset as CSV.

    Gives the file to ``write`` piece by piece, and returns what the file holds. Raises grpc.RpcError when the export
    fails, and ExportDiffers unless rows, sum of effects and SHA-256 are those that the server states.
    """
    check = ExportCheck()
    call = client.ExportLedgerEntries(request)
    try:
        for message in call:
            check.update(message.data)
            write(message.data)
        return check.finish({name: str(value) for name, value in call.trailing_metadata() or ()})
    finally:
        call.cancel()


class ExportCheck:
    """Counts and hashes a CSV file as it arrives, and compares it with the server's summary."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._rest = b""
        self._rows = -1  # for the header
        self._sum_of_effects = 0

    def update(self, csv: bytes) -> None:
        """Takes the next bytes of the file."""
        self._hash.update(csv)
        *lines, self._rest = (self._rest + csv).split(b"\r\n")
        if len(self._rest) > ROW_MAX_BYTES:
            raise ExportDiffers(f"the export arrived not as sent: a row has more than {ROW_MAX_BYTES} bytes")
        for line in lines:
            self._rows += 1
            # The first fields, time, quantity and effect, are never quoted; no field holds a line end.
            if self._rows > 0:
                self._sum_of_effects += _effect_of(line)

    def finish(self, stated: "dict[str, str]") -> ExportSummary:
        """``stated`` are the trailers of the response. Raises ExportDiffers when they are missing or differ."""
        counted = ExportSummary(self._rows, self._sum_of_effects, self._hash.hexdigest())
        for label, name, value in (
            ("rows", "export-rows", str(counted.rows)),
            ("sum of effects", "export-sum-of-effects", str(counted.sum_of_effects)),
            ("SHA-256", "export-sha256", counted.sha256),
        ):
            if name not in stated:
                raise ExportDiffers("the export arrived without its summary")
            if stated[name] != value:
                raise ExportDiffers(f"the export arrived not as sent: {label} {value} instead of {quoted(stated[name])}")
        return counted


def _effect_of(line: bytes) -> int:
    effect = line.split(b",", 3)[2:3]
    if not effect or re.fullmatch(rb"-?[0-9]{1,100}", effect[0]) is None:
        text = effect[0].decode(errors="replace") if effect else ""
        raise ExportDiffers(f"the export arrived not as sent: a row has the effect {quoted(text)}")
    return int(effect[0])
