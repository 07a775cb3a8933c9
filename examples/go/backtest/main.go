// Command backtest runs a toy strategy on what is kept of a market's past, then on what happens now. It follows the
// heavier side of the best prices: go run ./backtest [MARKET]
package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log"
	"os"
	"strconv"
	"time"

	"marketd.example/marketd"
)

type strategy struct{ trades, position, cash, profit int64 } // money in units of the last decimal of prices

func (s *strategy) run(changes iter.Seq2[marketd.DepthChange, error]) {
	for change, err := range changes {
		if err != nil {
			log.Fatal(err)
		}
		best, worst := change.Book.BestBid(), change.Book.BestOffer()
		if best == nil || worst == nil {
			continue
		}
		bid, _ := strconv.ParseInt(best.GetPrice(), 10, 64)
		offer, _ := strconv.ParseInt(worst.GetPrice(), 10, 64) // Others than the demo's may need big.Int.
		wanted, price := s.position, bid
		if best.GetVolume() > 2*worst.GetVolume() {
			wanted, price = 1, offer
		} else if worst.GetVolume() > 2*best.GetVolume() {
			wanted = -1
		}
		if wanted != s.position {
			s.cash, s.position, s.trades = s.cash-(wanted-s.position)*price, wanted, s.trades+1
			at, _ := marketd.ScaledPrice(change.Scale, strconv.FormatInt(price, 10))
			fmt.Println(time.Unix(0, change.Block.GetTimestamp()).UTC(), "position", wanted, "at", at)
		}
		s.profit = s.cash + map[int64]int64{1: bid, -1: -offer}[s.position]
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
	var s strategy
	s.run(marketd.Replay(ctx, client, past))
	fmt.Printf("backtest: %d trades, profit %d\n", s.trades, s.profit)
	s.run(marketd.Replay(ctx, client, marketd.ReplayOptions{DepthOptions: past.DepthOptions, From: past.Until.Add(-1)}))
}
