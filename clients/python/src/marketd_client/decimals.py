from __future__ import annotations

from typing import Protocol

from .quoted import quoted

#: The most decimal places that a market can have, before or after the point: numbers have at most 78 digits.
DECIMAL_PLACES_MAX = 78


class Scale(Protocol):
    """What says how a market's numbers are scaled: a Market, a MarketHistoryStatus, or a book of the past."""

    @property
    def decimal_places(self) -> int: ...

    @property
    def position_decimal_places(self) -> int: ...


def scaled_price(market: Scale, price: str) -> str:
    """A price of a market as a decimal number: ``"12345"`` with 2 decimal places is ``123.45``.

    Raises ValueError that names the market if its decimal places cannot be right.
    """
    return _scaled(market, price, market.decimal_places)


def scaled_size(market: Scale, size: int) -> str:
    """A volume or size of a market as a decimal number. Negative decimal places append zeros.

    Raises ValueError that names the market if its decimal places cannot be right.
    """
    return _scaled(market, str(size), market.position_decimal_places)


def _scaled(market: Scale, integer: str, places: int) -> str:
    if abs(places) > DECIMAL_PLACES_MAX:
        most = f"at most {DECIMAL_PLACES_MAX} can be right"
        market_id = getattr(market, "id", "") or getattr(market, "market_id", "")
        raise ValueError(f"market {quoted(market_id)} has {places} decimal places; {most}")
    if places <= 0:
        return integer if integer == "0" else integer + "0" * -places
    digits = integer.rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"
