#!/usr/bin/env bash
# Everything that a party received, oldest first: ./ledger-history.sh PARTY
# Needs curl, jq and bc.
set -euo pipefail

url="${MARKETD:-http://127.0.0.1:8080}/api/v2/ledgerentry/history"
party=${1:?usage: ./ledger-history.sh PARTY}

# A page can be short, or even empty, and not the last: what counts is hasNextPage.
# `set -e` does not reach into $(pages), so each step returns when it fails.
pages() {
  local after='' before page
  while true; do
    page=$(curl -sSf --retry 5 --get "$url" --data-urlencode "filter.toAccountFilter.partyIds=$party" \
      -d pagination.newestFirst=false -d pagination.first=500 ${after:+--data-urlencode "pagination.after=$after"}) || return
    jq -c '.ledgerEntries.edges[].node' <<<"$page" || return
    [ "$(jq '.ledgerEntries.pageInfo.hasNextPage' <<<"$page")" = true ] || return 0
    before=$after
    after=$(jq -r '.ledgerEntries.pageInfo.endCursor' <<<"$page") || return
    [ "$after" != "$before" ] || { echo "the list does not advance" >&2; return 1; }
  done
}

entries=$(pages)
# Times are nanoseconds in text: the seconds are all but the last nine digits.
jq -r '"\(.timestamp[:-9] | tonumber | todate) \(.quantity) \(.transferType) \(.toAccountType)"' <<<"$entries"
for asset in $(jq -r .assetId <<<"$entries" | sort -u); do
  # Quantities have up to 78 digits, so bc adds them.
  total=$(jq -r --arg asset "$asset" 'select(.assetId == $asset).quantity' <<<"$entries" | paste -sd+ | BC_LINE_LENGTH=0 bc)
  echo "in all $total of $asset"
done
echo "$(jq -s length <<<"$entries") entries"
