"""Client of marketd: order books that stay right, trades from the past into the present, ledger paging and exports."""

from .balances import AccountAmount, BalanceChange, accounts, balance_changes
from .client import MESSAGE_MAX_BYTES, Client
from .decimals import DECIMAL_PLACES_MAX, Scale, scaled_amount, scaled_price, scaled_size
from .depth_book import DepthBook, Outcome
from .depth_reader import DepthChange, PastBook, book_at, read_depth, replay
from .ledger import ExportDiffers, ExportSummary, export_ledger, ledger_entries
from .listings import CandleInterval, assets, candles, markets
from .pages import ListDoesNotAdvance
from .retry import is_transient, retry_wait_seconds
from .stream import SILENCE_MAX_SECONDS, FailedCall
from .times import Time
from .trade_reader import trades

__all__ = [
    "DECIMAL_PLACES_MAX",
    "MESSAGE_MAX_BYTES",
    "SILENCE_MAX_SECONDS",
    "AccountAmount",
    "BalanceChange",
    "CandleInterval",
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
    "Time",
    "accounts",
    "assets",
    "balance_changes",
    "book_at",
    "candles",
    "export_ledger",
    "is_transient",
    "ledger_entries",
    "markets",
    "read_depth",
    "replay",
    "retry_wait_seconds",
    "scaled_amount",
    "scaled_price",
    "scaled_size",
    "trades",
]
