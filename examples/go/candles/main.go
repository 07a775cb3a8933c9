// Command candles prints the minutes of a market: start, open, high, low, close and volume:
// go run ./candles [MARKET] [SECONDS]. SECONDS: only those that began in the newest of them.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"marketd.example/marketd"
	"marketd.example/marketd/gen/vega"
)

func main() {
	ctx, client := context.Background(), marketd.NewClient(cmp.Or(os.Getenv("MARKETD"), "http://127.0.0.1:8080"))
	var market *vega.Market
	for one, err := range marketd.Markets(ctx, client, marketd.MarketsOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		if len(os.Args) < 2 || one.GetId() == os.Args[1] {
			market = one
			break
		}
	}
	var from time.Time
	if len(os.Args) > 2 {
		newest, err := time.ParseDuration(os.Args[2] + "s")
		if err != nil {
			log.Fatal(err)
		}
		from = time.Now().Add(-newest)
	}
	minutes := marketd.Candles(ctx, client, market.GetId(), marketd.OneMinute, from, time.Time{}, marketd.ListOptions{})
	for candle, err := range minutes {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(time.Unix(0, candle.GetStart()).UTC().Format(time.RFC3339))
		for _, integer := range []string{candle.GetOpen(), candle.GetHigh(), candle.GetLow(), candle.GetClose()} {
			price, _ := marketd.ScaledPrice(market, integer)
			fmt.Print(" ", price)
		}
		volume, _ := marketd.ScaledSize(market, candle.GetVolume())
		fmt.Println("", volume)
	}
}
