// Command best-prices prints the best prices of a market: go run ./best-prices [MARKET]
// Without a market: of the first in the list.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"

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
	if err := show("bid", market.GetMarket(), depth.GetBuy()); err != nil {
		return err
	}
	return show("offer", market.GetMarket(), depth.GetSell())
}

// show scales the best level: prices and volumes are integers, and the market says how many of their digits are decimals.
func show(side string, market *vega.Market, levels []*vega.PriceLevel) error {
	if len(levels) == 0 {
		fmt.Println(side, "none")
		return nil
	}
	price, err := marketd.ScaledPrice(market, levels[0].GetPrice())
	if err != nil {
		return err
	}
	size, err := marketd.ScaledSize(market, levels[0].GetVolume())
	if err != nil {
		return err
	}
	fmt.Println(side, price, size)
	return nil
}
