// Command live-order-book prints a market's order book as it changes, whatever happens to the server:
// go run ./live-order-book [MARKET]
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
	client := marketd.NewClient(cmp.Or(os.Getenv("MARKETD"), "http://127.0.0.1:8080"))
	changes := marketd.ReadDepth(context.Background(), client, marketd.DepthOptions{
		// None: every market.
		MarketIDs: os.Args[1:],
		OnDisconnect: func(err error, wait time.Duration) {
			log.Printf("%v; next attempt in %v", err, wait)
		},
	})
	for change, err := range changes {
		if err != nil {
			log.Fatal(err)
		}
		book := change.Book
		sequence, _ := book.SequenceNumber()
		best := text(book.BestBid()) + " / " + text(book.BestOffer())
		fmt.Printf("%s %d: %s, %d and %d levels\n", book.MarketID(), sequence, best, len(book.Buy()), len(book.Sell()))
	}
}

func text(level *vega.PriceLevel) string {
	if level == nil {
		return "none"
	}
	return fmt.Sprintf("%d at %s", level.GetVolume(), level.GetPrice())
}
