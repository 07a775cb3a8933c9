#!/usr/bin/env bash
# A party's ledger of an asset as a CSV file that is complete: ./verified-export.sh PARTY ASSET FILE
# Needs curl, bc and sha256sum.
set -euo pipefail

url="${MARKETD:-http://127.0.0.1:8080}/api/v2/ledgerentry/export"
party=${1:?usage: ./verified-export.sh PARTY ASSET FILE}
asset=${2:?usage: ./verified-export.sh PARTY ASSET FILE}
file=${3:?usage: ./verified-export.sh PARTY ASSET FILE}

# The file gets its name when it is known to be complete.
unfinished=$file.part
headers=$(mktemp)
trap 'rm -f "$headers" "$unfinished"' EXIT

# What the file holds comes behind it, in trailers, which curl writes to the same place as headers.
curl -sSf --get "$url" --data-urlencode "partyId=$party" --data-urlencode "assetId=$asset" -d alt=media \
  -D "$headers" -o "$unfinished"

stated() {
  tr -d '\r' <"$headers" | sed -n "s/^export-$1: *//Ip"
}

compare() {
  [ "$2" = "$(stated "$1")" ] && return
  echo "the export arrived not as sent: $1 $2 instead of $(stated "$1")" >&2
  exit 1
}

rows=$(($(wc -l <"$unfinished") - 1))
# The third field is the effect; the fields before it are never quoted. Effects have up to 78 digits, so bc adds them.
sum=$( (echo 0; tail -n +2 "$unfinished" | cut -d, -f3) | paste -sd+ | BC_LINE_LENGTH=0 bc)
sha256=$(sha256sum <"$unfinished" | cut -d' ' -f1)
compare rows "$rows"
compare sum-of-effects "$sum"
compare sha256 "$sha256"

mv "$unfinished" "$file"
echo "$rows rows, sum of effects $sum"
echo "SHA-256 $sha256"
