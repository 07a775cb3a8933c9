#!/usr/bin/env bash
# The best prices of a market: ./best-prices.sh [MARKET]. Without a market: of the first in the list.
# Needs grpcurl and jq. The server describes itself, so grpcurl needs no definitions.
set -euo pipefail

url=${MARKETD:-http://127.0.0.1:8080}
service=datanode.api.v2.TradingDataService

call() {
  grpcurl -plaintext -d "$2" "${url#http://}" "$service/$1"
}

market=${1:-$(call ListLatestMarketData '{}' | jq -r '.marketsData[0].market // empty')}
[[ -n $market ]] || { echo "no market has market data; name a market" >&2; exit 1; }
request=$(jq -n --arg market "$market" '{marketId: $market}')

call GetMarket "$request" | jq -r '.market.tradableInstrument.instrument.name'
places=$(call GetMarket "$request" | jq '.market.decimalPlaces // "0" | tonumber')

# Prices are text of up to 78 digits, so they are scaled as text.
call GetLatestMarketDepth "$(jq '.maxDepth = 1' <<<"$request")" | jq -r --argjson places "$places" '
  def scaled:
    if $places == 0 then . else
      ("0" * ([$places + 1 - length, 0] | max) // "") + . | .[:-$places] + "." + .[-$places:]
    end;
  def show(side): if . == null then "\(side) none" else "\(side) \(.price | scaled) \(.volume // 0)" end;
  (.buy[0]? | show("bid")), (.sell[0]? | show("offer"))'
