// Command best-prices prints the best prices of a market: go run ./best-prices [MARKET]
// Without a market: of the first in the list.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"marketd.example/marketd"
	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
	"marketd.example/marketd/gen/vega"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client := marketd.NewClient(cmp.Or(os.Getenv("MARKETD"), "http://127.0.0.1:8080"))
	list, err := client.ListLatestMarketData(ctx, &apiv2.ListLatestMarketDataRequest{Market: os.Args[1:]})
	if err != nil {
		return err
	}
	if len(list.GetMarketsData()) == 0 {
		return fmt.Errorf("no market has data yet")
	}
	id := list.GetMarketsData()[0].GetMarket()
	market, err := client.GetMarket(ctx, &apiv2.GetMarketRequest{MarketId: id})
	if err != nil {
		return err
	}
	best := uint64(1)
	depth, err := client.GetLatestMarketDepth(ctx, &apiv2.GetLatestMarketDepthRequest{MarketId: id, MaxDepth: &best})
	if err != nil {
		return err
	}
	fmt.Println(market.GetMarket().GetTradableInstrument().GetInstrument().GetName())
	places := int(market.GetMarket().GetDecimalPlaces())
	show("bid", depth.GetBuy(), places)
	show("offer", depth.GetSell(), places)
	return nil
}

// show scales by the market's decimal places: prices are integers of up to 78 digits.
func show(side string, levels []*vega.PriceLevel, places int) {
	if len(levels) == 0 {
		fmt.Println(side, "none")
		return
	}
	digits := strings.Repeat("0", max(0, places+1-len(levels[0].GetPrice()))) + levels[0].GetPrice()
	whole, fraction := digits[:len(digits)-places], digits[len(digits)-places:]
	fmt.Println(side, strings.TrimSuffix(whole+"."+fraction, "."), levels[0].GetVolume())
}
