"""Everything that a party received, oldest first: python ledger_history.py PARTY"""

import os
import sys
from collections import defaultdict
from datetime import datetime, timezone
from typing import Dict

from marketd_client import Client, ledger_entries
from marketd_client.gen.datanode.api.v2.trading_data_pb2 import AccountFilter, LedgerEntryFilter
from marketd_client.gen.vega.vega_pb2 import AccountType, TransferType

if len(sys.argv) != 2:
    sys.exit("usage: python ledger_history.py PARTY")

received = LedgerEntryFilter(to_account_filter=AccountFilter(party_ids=[sys.argv[1]]))
totals: Dict[str, int] = defaultdict(int)
count = 0
with Client(os.environ.get("MARKETD", "http://127.0.0.1:8080")) as client:
    for edge in ledger_entries(client, received, newest_first=False, page_size=500):
        entry = edge.node
        count += 1
        totals[entry.asset_id] += int(entry.quantity)
        # Times are nanoseconds, which datetime does not hold.
        time = datetime.fromtimestamp(entry.timestamp // 1_000_000_000, timezone.utc).isoformat()
        kind = TransferType.Name(entry.transfer_type)
        print(time, entry.quantity, kind, AccountType.Name(entry.to_account_type))
for asset, total in totals.items():
    print(f"in all {total} of {asset}")
print(f"{count} entries")
