// Command trades prints a market's trades from the first that is kept on, and then as they are made:
// go run ./trades [MARKET]. It goes on when the server restarts. Without a market: those of the first in the list.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"marketd.example/marketd"
)

func main() {
	ctx, client := context.Background(), marketd.NewClient(cmp.Or(os.Getenv("MARKETD"), "http://127.0.0.1:8080"))
	for market, err := range marketd.Markets(ctx, client, marketd.MarketsOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		if len(os.Args) > 1 && market.GetId() != os.Args[1] {
			continue
		}
		for trade, err := range marketd.Trades(ctx, client, market.GetId(), time.Time{}, marketd.TradesOptions{}) {
			if err != nil {
				log.Fatal(err)
			}
			price, _ := marketd.ScaledPrice(market, trade.GetPrice())
			size, _ := marketd.ScaledSize(market, trade.GetSize())
			fmt.Println(trade.GetTimestamp(), price, size, trade.GetId())
		}
	}
}
