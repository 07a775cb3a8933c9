from __future__ import annotations

from bisect import bisect_left
from typing import Dict, Iterable, List, Literal, Optional

from .gen.vega.vega_pb2 import MarketDepthUpdate, PriceLevel

Outcome = Literal["applied", "known", "gap"]


class DepthBook:
    """The order book of one market, kept by applying the updates of a depth stream. Does no I/O."""

    def __init__(self, market_id: str) -> None:
        """Empty, and waiting for a whole book."""
        self.market_id = market_id
        #: That of the newest update in the book; None before the first.
        self.sequence_number: Optional[int] = None
        self._buy = _Side()
        self._sell = _Side()

    @property
    def buy(self) -> List[PriceLevel]:
        """By price, descending."""
        return self._buy.ascending()[::-1]

    @property
    def sell(self) -> List[PriceLevel]:
        """By price, ascending."""
        return self._sell.ascending()

    @property
    def best_bid(self) -> Optional[PriceLevel]:
        """The highest level that somebody buys at."""
        return self._buy.at(-1)

    @property
    def best_offer(self) -> Optional[PriceLevel]:
        """The lowest level that somebody sells at."""
        return self._sell.at(0)

    def apply(self, update: MarketDepthUpdate) -> Outcome:
        """Applies an update.

        Previous sequence number 0 says that it is the whole book. Any other update holds each changed level as it is
        now, and counts if previous_sequence_number <= the book's < sequence_number.

        Returns ``applied``; ``known`` if the book is already as new; ``gap`` if updates between the book and this one
        are missing: the book needs a new stream then. Raises ValueError for an update of another market.
        """
        if update.market_id != self.market_id:
            raise ValueError(f"an update of market {update.market_id} for the book of {self.market_id}")
        held = self.sequence_number
        if held is not None and update.sequence_number <= held:
            return "known"
        if update.previous_sequence_number == 0:
            self._buy = _Side()
            self._sell = _Side()
        elif held is None or update.previous_sequence_number > held:
            return "gap"
        # The worst first, as prices are kept: each insertion in front of all others would move them.
        self._buy.set_all(reversed(update.buy))
        self._sell.set_all(update.sell)
        self.sequence_number = update.sequence_number
        return "applied"


class _Side:
    """Levels by price. Prices are integers of up to 78 digits, so they are compared as ``int``."""

    def __init__(self) -> None:
        self._prices: List[int] = []
        self._levels: Dict[int, PriceLevel] = {}

    def set_all(self, levels: Iterable[PriceLevel]) -> None:
        for level in levels:
            price = int(level.price)
            index = bisect_left(self._prices, price)
            gone = level.volume == 0 and level.number_of_orders == 0
            if price in self._levels:
                if gone:
                    del self._prices[index], self._levels[price]
            elif not gone:
                self._prices.insert(index, price)
            if not gone:
                self._levels[price] = level

    def ascending(self) -> List[PriceLevel]:
        return [self._levels[price] for price in self._prices]

    def at(self, index: int) -> Optional[PriceLevel]:
        return self._levels[self._prices[index]] if self._prices else None
