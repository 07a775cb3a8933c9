#!/usr/bin/env bash
# A market's order book as it changes, whatever happens to the server: ./live-order-book.sh [MARKET]
# Needs curl and jq.
set -euo pipefail

url="${MARKETD:-http://127.0.0.1:8080}/api/v2/stream/markets/depth/updates"
wait_seconds=1

# The rules of docs/depth-stream.md. Each line of the stream is one message; books start anew with each connection.
# Prices and sequence numbers are integers without leading zeros, longer than a number of jq holds: they are compared by
# length and then as text.
rules='
def size: [length, .];
def apply($levels):
  reduce $levels[] as $level (.; if $level.volume == "0" and $level.numberOfOrders == "0"
    then del(.[$level.price]) else .[$level.price] = $level.volume end);
def show(best): if length == 0 then "none" else (keys_unsorted | best) as $price | "\(.[$price]) at \($price)" end;
foreach (inputs | .result.update // (.error.message | error) | .[]) as $update ({};
  .books[$update.marketId] as $book
  | .line = null
  | if $book and ($update.sequenceNumber | size) <= ($book.sequence | size) then .
    elif $update.previousSequenceNumber != "0"
      and (($book == null) or ($update.previousSequenceNumber | size) > ($book.sequence | size)) then
      error("updates of market \($update.marketId) are missing")
    else
      (if $update.previousSequenceNumber == "0" then {buy: {}, sell: {}} else $book end
        | .buy |= apply($update.buy) | .sell |= apply($update.sell) | .sequence = $update.sequenceNumber) as $new
      | .books[$update.marketId] = $new
      | .line = "\($update.marketId) \($new.sequence): "
        + "\($new.buy | show(max_by(size))) / \($new.sell | show(min_by(size))), "
        + "\($new.buy | length) and \($new.sell | length) levels"
    end;
  .line // empty)'

while true; do
  # A server sends a message every 15 seconds; a connection that is silent for longer is broken.
  curl -sN --speed-limit 1 --speed-time 45 --get ${1:+--data-urlencode "marketIds=$1"} "$url" |
    jq -rn --unbuffered "$rules" || [ $? != 141 ] || exit 0 # 141: nobody reads what is printed
  echo "the stream broke; next attempt in $wait_seconds s" >&2
  sleep "$wait_seconds"
done
