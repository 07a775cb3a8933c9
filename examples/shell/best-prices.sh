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

definition=$(call GetMarket "$request" | jq .market)
jq -r .tradableInstrument.instrument.name <<<"$definition"

# Prices and volumes are text of up to 78 digits, so they are scaled as text. The market says how many digits are
# decimals; negative decimals append zeros. More than 78 cannot be right.
call GetLatestMarketDepth "$(jq '.maxDepth = 1' <<<"$request")" | jq -r --argjson market "$definition" '
  def places(number): (number // "0" | tonumber) as $places
    | if $places | fabs > 78 then error("market \($market.id) has \($places) decimal places") else $places end;
  def scaled($places):
    if $places == 0 or . == "0" and $places < 0 then .
    elif $places < 0 then . + "0" * -$places
    else ("0" * ([$places + 1 - length, 0] | max) // "") + . | .[:-$places] + "." + .[-$places:]
    end;
  places($market.decimalPlaces) as $price
  | places($market.positionDecimalPlaces) as $size
  | def show(side):
      if . == null then "\(side) none" else "\(side) \(.price | scaled($price)) \(.volume // "0" | scaled($size))" end;
  (.buy[0]? | show("bid")), (.sell[0]? | show("offer"))'
