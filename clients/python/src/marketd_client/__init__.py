"""Client of marketd: order books that stay right, ledger paging, verified exports."""

from .client import Client
from .depth_book import DepthBook, Outcome
from .depth_reader import SILENCE_MAX_SECONDS, DepthChange, read_depth
from .ledger import ExportDiffers, ExportSummary, export_ledger, ledger_entries
from .retry import is_transient, retry_wait_seconds

__all__ = [
    "SILENCE_MAX_SECONDS",
    "Client",
    "DepthBook",
    "DepthChange",
    "ExportDiffers",
    "ExportSummary",
    "Outcome",
    "export_ledger",
    "is_transient",
    "ledger_entries",
    "read_depth",
    "retry_wait_seconds",
]
