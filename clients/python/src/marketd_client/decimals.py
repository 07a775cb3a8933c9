from __future__ import annotations

from typing import Protocol

from .gen.vega.assets_pb2 import Asset
from .quoted import quoted

#: The most decimal places that a market or an asset can have, before or after the point: numbers have at most 78 digits.
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
    return _scaled("market", _id_of(market), price, market.decimal_places)


def scaled_size(market: Scale, size: int) -> str:
    """A volume or size of a market as a decimal number. Negative decimal places append zeros.

    Raises ValueError that names the market if its decimal places cannot be right.
    """
    return _scaled("market", _id_of(market), str(size), market.position_decimal_places)


def scaled_amount(asset: Asset, amount: str) -> str:
    """An amount of an asset, such as a balance, as a decimal number.

    Raises ValueError that names the asset if its decimals cannot be right.
    """
    sign = "-" if amount.startswith("-") else ""
    return sign + _scaled("asset", asset.id, amount[len(sign) :], asset.details.decimals)


def _id_of(market: Scale) -> str:
    return getattr(market, "id", "") or getattr(market, "market_id", "")


def _scaled(what: str, id: str, integer: str, places: int) -> str:
    if abs(places) > DECIMAL_PLACES_MAX:
        most = f"at most {DECIMAL_PLACES_MAX} can be right"
        raise ValueError(f"{what} {quoted(id)} has {places} decimal places; {most}")
    if places <= 0:
        return integer if integer == "0" else integer + "0" * -places
    digits = integer.rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"
