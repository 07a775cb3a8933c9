"""Calls every operation with the client that openapi-generator made of openapi.json, and prints what it got as JSON."""

import json
import sys

import marketd_http

host, market, party, asset = sys.argv[1:]
client = marketd_http.ApiClient(marketd_http.Configuration(host=host))
api = marketd_http.TradingDataServiceApi(client)


def first_line(response):
    """Of a stream, which the client leaves to its caller to read."""
    text = b""
    for piece in response.stream(4096):
        text += piece
        if b"\n" in text:
            break
    response.close()
    return json.loads(text.split(b"\n")[0])


received = {"filter_to_account_filter_party_ids": [party], "filter_transfer_types": ["TRANSFER_TYPE_DEPOSIT"]}
responses = {
    "GetMarket": api.get_market(market),
    "GetLatestMarketDepth": api.get_latest_market_depth(market, max_depth="3"),
    "GetLatestMarketData": api.get_latest_market_data(market),
    "ListLatestMarketData": api.list_latest_market_data(),
    "ListLatestMarketData2": api.list_latest_market_data2(market=[market]),
    "ListLedgerEntries": api.list_ledger_entries(pagination_first=3, **received),
    "ListERC20MultiSigSignerRemovedBundles": api.list_erc20_multi_sig_signer_removed_bundles(pagination_first=2),
}
streams = {
    "ObserveMarketsDepthUpdates": api.observe_markets_depth_updates_without_preload_content(market_ids=[market]),
    "ExportLedgerEntries": api.export_ledger_entries_without_preload_content(party, asset),
}
try:
    api.get_market("unknown")
    problem = None
except marketd_http.ApiException as error:
    problem = json.loads(error.data.to_json())
found = {name: json.loads(response.to_json()) for name, response in responses.items()}
found.update({name: first_line(response) for name, response in streams.items()})
print(json.dumps({"responses": found, "problem": problem}))
