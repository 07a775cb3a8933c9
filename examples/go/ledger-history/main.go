// Command ledger-history prints everything that a party received, oldest first: go run ./ledger-history PARTY
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"math/big"
	"os"
	"time"

	"marketd.example/marketd"
	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: go run ./ledger-history PARTY")
	}
	client := marketd.NewClient(cmp.Or(os.Getenv("MARKETD"), "http://127.0.0.1:8080"))
	received := marketd.LedgerEntries(context.Background(), client, marketd.LedgerQuery{
		Filter:      &apiv2.LedgerEntryFilter{ToAccountFilter: &apiv2.AccountFilter{PartyIds: os.Args[1:]}},
		OldestFirst: true,
		PageSize:    500,
	})
	totals := map[string]*big.Int{}
	count := 0
	for edge, err := range received {
		if err != nil {
			log.Fatal(err)
		}
		entry := edge.GetNode()
		count++
		quantity, ok := new(big.Int).SetString(entry.GetQuantity(), 10)
		if !ok {
			log.Fatalf("%q is no quantity", entry.GetQuantity())
		}
		if totals[entry.GetAssetId()] == nil {
			totals[entry.GetAssetId()] = new(big.Int)
		}
		totals[entry.GetAssetId()].Add(totals[entry.GetAssetId()], quantity)
		at := time.Unix(0, entry.GetTimestamp()).UTC().Format(time.RFC3339Nano)
		fmt.Println(at, quantity, entry.GetTransferType(), entry.GetToAccountType())
	}
	for asset, total := range totals {
		fmt.Println("in all", total, "of", asset)
	}
	fmt.Println(count, "entries")
}
