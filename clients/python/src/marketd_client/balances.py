from __future__ import annotations

import re
from decimal import Decimal
from typing import Dict, Iterator, NamedTuple, Optional, Tuple

import grpc

from .client import Client
from .decimals import scaled_amount
from .gen.datanode.api.v2.trading_data_pb2 import (
    AccountBalance,
    AccountFilter,
    AccountsConnection,
    AggregatedBalance,
    AggregatedBalanceConnection,
    DateRange,
    GetAssetRequest,
    ListAccountsRequest,
    ListBalanceChangesRequest,
    Pagination,
)
from .gen.vega.assets_pb2 import Asset
from .pages import pages
from .quoted import quoted
from .stream import Broken
from .times import Time, nanoseconds

#: A balance is decimal text of at most 256 bits, possibly negative.
_BALANCE = re.compile("-?[0-9]{1,78}")


class AccountAmount(NamedTuple):
    """An account and what it holds."""

    #: With the balance as an integer.
    account: AccountBalance
    #: None: the network has not announced it.
    asset: Optional[Asset]
    #: Exact, with the asset's decimals; None without the asset. Decimals of Python round what is calculated with them to
    #: the digits of their context, 28 by default; a balance has up to 78.
    balance: Optional[Decimal]


class BalanceChange(NamedTuple):
    """What an account held at the end of a block."""

    #: With the balance as an integer.
    change: AggregatedBalance
    #: As that of AccountAmount.
    asset: Optional[Asset]
    #: As that of AccountAmount.
    balance: Optional[Decimal]


def accounts(
    client: Client,
    filter: Optional[AccountFilter] = None,
    *,
    as_of: Optional[Time] = None,
    page_size: int = 1000,
) -> Iterator[AccountAmount]:
    """Every account that is selected, with its balance as a decimal number, a page at a time. Reads each asset once.

    Without ``filter``: every account that a ledger entry names; a filter has at most one party. Balances are as of a
    time, in Unix nanoseconds or a datetime with a time zone; without ``as_of`` they are the newest, which may change
    from page to page. Raises grpc.RpcError when a page cannot be read: FAILED_PRECONDITION with the reason
    LEDGER_NOT_RETAINED if a balance is not known any more.
    """
    request = ListAccountsRequest(filter=filter, as_of=None if as_of is None else nanoseconds(as_of))

    def read(pagination: Pagination) -> AccountsConnection:
        request.pagination.CopyFrom(pagination)
        return client.ListAccounts(request).accounts

    amounts = _Amounts(client)
    for page in pages(read, Pagination(first=page_size)):
        for edge in page.edges:
            yield AccountAmount(edge.node, *amounts.of(edge.node.asset, edge.node.balance))


def balance_changes(
    client: Client,
    filter: Optional[AccountFilter] = None,
    *,
    date_range: Optional[DateRange] = None,
    newest_first: bool = True,
    page_size: int = 1000,
) -> Iterator[BalanceChange]:
    """Every change of a balance that is selected, as a decimal number, a page at a time. Reads each asset once.

    ``filter`` is as that of ``accounts``, and so are the errors.
    """
    request = ListBalanceChangesRequest(filter=filter, date_range=date_range)

    def read(pagination: Pagination) -> AggregatedBalanceConnection:
        request.pagination.CopyFrom(pagination)
        return client.ListBalanceChanges(request).balances

    amounts = _Amounts(client)
    for page in pages(read, Pagination(first=page_size, newest_first=newest_first)):
        for edge in page.edges:
            yield BalanceChange(edge.node, *amounts.of(edge.node.asset_id, edge.node.balance))


class _Amounts:
    """Amounts of the assets of a network, each of which is read once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._assets: Dict[str, Optional[Asset]] = {}

    def of(self, asset_id: str, balance: str) -> Tuple[Optional[Asset], Optional[Decimal]]:
        if _BALANCE.fullmatch(balance) is None:
            text = f"asset {quoted(asset_id)} has the balance {quoted(balance)}"
            raise Broken(text, grpc.StatusCode.DATA_LOSS)
        if asset_id not in self._assets:
            self._assets[asset_id] = self._read(asset_id)
        asset = self._assets[asset_id]
        return asset, None if asset is None else Decimal(scaled_amount(asset, balance))

    def _read(self, asset_id: str) -> Optional[Asset]:
        try:
            return self._client.GetAsset(GetAssetRequest(asset_id=asset_id)).asset
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                return None
            raise
