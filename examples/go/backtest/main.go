// Command backtest runs a toy strategy on a market's past, then on what happens now: go run ./backtest [MARKET]
package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log"
	"math/big"
	"os"
	"time"

	"marketd.example/marketd"
)

var trades, position int64
var cash, profit big.Int // in units of the last decimal of prices

func trade(changes iter.Seq2[marketd.DepthChange, error]) {
	for change, err := range changes {
		if err != nil {
			log.Fatal(err)
		}
		best, worst := change.Book.BestBid(), change.Book.BestOffer()
		if best == nil || worst == nil {
			continue
		}
		bid, _ := new(big.Int).SetString(best.GetPrice(), 10)
		offer, _ := new(big.Int).SetString(worst.GetPrice(), 10)
		wanted, price := position, bid
		if best.GetVolume() > 2*worst.GetVolume() {
			wanted, price = 1, offer
		} else if worst.GetVolume() > 2*best.GetVolume() {
			wanted = -1
		}
		if wanted != position {
			cash.Sub(&cash, new(big.Int).Mul(big.NewInt(wanted-position), price))
			position, trades = wanted, trades+1
			at, _ := marketd.ScaledPrice(change.Scale, price.String())
			fmt.Println(time.Unix(0, change.Block.GetTimestamp()).UTC(), "position", position, "at", at)
		}
		profit.Add(&cash, new(big.Int).Mul(big.NewInt(position), map[bool]*big.Int{true: bid, false: offer}[position > 0]))
	}
}

func main() {
	ctx, client := context.Background(), marketd.NewClient(cmp.Or(os.Getenv("MARKETD"), "http://127.0.0.1:8080"))
	past := marketd.ReplayOptions{DepthOptions: marketd.DepthOptions{MarketIDs: os.Args[1:]}, EveryUpdate: true}
	for change, err := range marketd.ReadDepth(ctx, client, past.DepthOptions) {
		if err != nil {
			log.Fatal(err)
		}
		past.MarketIDs, past.Until = []string{change.Book.MarketID()}, time.Unix(0, change.Block.GetTimestamp())
		break // The past ends at the time of the newest block.
	}
	trade(marketd.Replay(ctx, client, past))
	fmt.Printf("backtest: %d trades, profit %v\n", trades, &profit)
	trade(marketd.Replay(ctx, client, marketd.ReplayOptions{DepthOptions: past.DepthOptions, From: past.Until.Add(-1)}))
}
