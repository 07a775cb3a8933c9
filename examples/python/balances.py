"""What a party holds, and how that came about, oldest first: python balances.py PARTY"""

import os
import sys

from marketd_client import Client, accounts, balance_changes
from marketd_client.gen.datanode.api.v2.trading_data_pb2 import AccountFilter
from marketd_client.gen.vega.vega_pb2 import AccountType

if len(sys.argv) != 2:
    sys.exit("usage: python balances.py PARTY")

party = AccountFilter(party_ids=[sys.argv[1]])
with Client(os.environ.get("MARKETD", "http://127.0.0.1:8080")) as client:
    # An asset that was never announced has no decimals: its balances are integers.
    for account, asset, balance in accounts(client, party):
        amount = account.balance if balance is None else f"{balance:f}"
        print("holds", amount, asset.details.symbol if asset else account.asset, AccountType.Name(account.type))
    for change, asset, balance in balance_changes(client, party, newest_first=False, page_size=100):
        amount = change.balance if balance is None else f"{balance:f}"
        symbol = asset.details.symbol if asset else change.asset_id
        print(change.timestamp, amount, symbol, AccountType.Name(change.account_type))
