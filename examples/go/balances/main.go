// Command balances prints what a party holds, and how that came about, oldest first: go run ./balances PARTY
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"math/big"
	"os"

	"marketd.example/marketd"
	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
	"marketd.example/marketd/gen/vega"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: go run ./balances PARTY")
	}
	ctx, client := context.Background(), marketd.NewClient(cmp.Or(os.Getenv("MARKETD"), "http://127.0.0.1:8080"))
	filter := &apiv2.AccountFilter{PartyIds: os.Args[1:]}
	for found, err := range marketd.Accounts(ctx, client, marketd.AccountQuery{Filter: filter}) {
		if err != nil {
			log.Fatal(err)
		}
		account := found.Account
		fmt.Println("holds", amount(found.Asset, found.Balance, account.GetAsset(), account.GetBalance()), account.GetType())
	}
	changes := marketd.BalanceQuery{Filter: filter, OldestFirst: true}
	changes.PageSize = 100
	for found, err := range marketd.BalanceChanges(ctx, client, changes) {
		if err != nil {
			log.Fatal(err)
		}
		change := found.Change
		text := amount(found.Asset, found.Balance, change.GetAssetId(), change.GetBalance())
		fmt.Println(change.GetTimestamp(), text, change.GetAccountType())
	}
}

// amount is text for people. An asset that was never announced has no decimals: its balances are integers.
func amount(asset *vega.Asset, balance *big.Rat, id, integer string) string {
	if asset == nil {
		return integer + " " + id
	}
	details := asset.GetDetails()
	return balance.FloatString(int(details.GetDecimals())) + " " + details.GetSymbol()
}
