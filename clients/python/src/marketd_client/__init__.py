"""Client of marketd: order books that stay right, ledger paging, verified exports."""

from .client import MESSAGE_MAX_BYTES, Client
from .decimals import DECIMAL_PLACES_MAX, Scale, scaled_price, scaled_size
from .depth_book import DepthBook, Outcome
from .depth_reader import SILENCE_MAX_SECONDS, DepthChange, FailedCall, PastBook, book_at, read_depth, replay
from .ledger import ExportDiffers, ExportSummary, ListDoesNotAdvance, export_ledger, ledger_entries
from .retry import is_transient, retry_wait_seconds

__all__ = [
    "DECIMAL_PLACES_MAX",
    "MESSAGE_MAX_BYTES",
    "SILENCE_MAX_SECONDS",
    "Client",
    "DepthBook",
    "DepthChange",
    "ExportDiffers",
    "ExportSummary",
    "FailedCall",
    "ListDoesNotAdvance",
    "Outcome",
    "PastBook",
    "Scale",
    "book_at",
    "export_ledger",
    "is_transient",
    "ledger_entries",
    "read_depth",
    "replay",
    "retry_wait_seconds",
    "scaled_price",
    "scaled_size",
]
