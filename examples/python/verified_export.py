"""A party's ledger of an asset as a CSV file that is complete: python verified_export.py PARTY ASSET FILE"""

import os
import sys

from marketd_client import Client, export_ledger
from marketd_client.gen.datanode.api.v2.trading_data_pb2 import ExportLedgerEntriesRequest

if len(sys.argv) != 4:
    sys.exit("usage: python verified_export.py PARTY ASSET FILE")
party, asset, path = sys.argv[1:]

# The file gets its name when it is known to be complete.
unfinished = f"{path}.part"
try:
    with Client(os.environ.get("MARKETD", "http://127.0.0.1:8080")) as client, open(unfinished, "wb") as file:
        request = ExportLedgerEntriesRequest(party_id=party, asset_id=asset)
        summary = export_ledger(client, request, file.write)
    os.replace(unfinished, path)
finally:
    if os.path.exists(unfinished):
        os.remove(unfinished)
print(f"{summary.rows} rows, sum of effects {summary.sum_of_effects}")
print(f"SHA-256 {summary.sha256}")
