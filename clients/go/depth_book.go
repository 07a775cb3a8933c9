package marketd

import (
	"fmt"
	"slices"
	"strings"

	"marketd.example/marketd/gen/vega"
)

// Outcome tells what became of an update.
type Outcome string

const (
	// Applied: the book has changed.
	Applied Outcome = "applied"
	// Known: the book is already as new.
	Known Outcome = "known"
	// Gap: updates between the book and this one are missing. The book needs a new stream.
	Gap Outcome = "gap"
)

// DepthBook is the order book of one market, kept by applying the updates of a depth stream. It does no I/O, and is not
// safe for concurrent use.
type DepthBook struct {
	marketID       string
	held           bool
	sequenceNumber uint64
	buy, sell      []*vega.PriceLevel
}

// NewDepthBook returns an empty book that waits for a whole book.
func NewDepthBook(marketID string) *DepthBook { return &DepthBook{marketID: marketID} }

// MarketID is the market whose book it is.
func (b *DepthBook) MarketID() string { return b.marketID }

// SequenceNumber is that of the newest update in the book; false before the first.
func (b *DepthBook) SequenceNumber() (uint64, bool) { return b.sequenceNumber, b.held }

// Buy lists the bids by price, descending. Don't keep it over the next update.
func (b *DepthBook) Buy() []*vega.PriceLevel { return b.buy }

// Sell lists the offers by price, ascending. Don't keep it over the next update.
func (b *DepthBook) Sell() []*vega.PriceLevel { return b.sell }

// BestBid is the highest level that somebody buys at; nil if there is none.
func (b *DepthBook) BestBid() *vega.PriceLevel { return first(b.buy) }

// BestOffer is the lowest level that somebody sells at; nil if there is none.
func (b *DepthBook) BestOffer() *vega.PriceLevel { return first(b.sell) }

// Apply applies an update. Previous sequence number 0 says that it is the whole book. Any other update holds each
// changed level as it is now, and counts if its previous sequence number ≤ the book's < its sequence number.
// It panics on an update of another market.
func (b *DepthBook) Apply(update *vega.MarketDepthUpdate) Outcome {
	if update.GetMarketId() != b.marketID {
		panic(fmt.Sprintf("an update of market %s for the book of %s", update.GetMarketId(), b.marketID))
	}
	if b.held && update.GetSequenceNumber() <= b.sequenceNumber {
		return Known
	}
	if update.GetPreviousSequenceNumber() == 0 {
		b.buy, b.sell = nil, nil
	} else if !b.held || update.GetPreviousSequenceNumber() > b.sequenceNumber {
		return Gap
	}
	ascending := func(a, b *vega.PriceLevel) int { return ComparePrices(a.GetPrice(), b.GetPrice()) }
	descending := func(a, b *vega.PriceLevel) int { return ascending(b, a) }
	for _, level := range update.GetBuy() {
		b.buy = set(b.buy, level, descending)
	}
	for _, level := range update.GetSell() {
		b.sell = set(b.sell, level, ascending)
	}
	b.held, b.sequenceNumber = true, update.GetSequenceNumber()
	return Applied
}

// ComparePrices compares two prices as integers of any length: negative, 0 or positive.
func ComparePrices(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func first(levels []*vega.PriceLevel) *vega.PriceLevel {
	if len(levels) == 0 {
		return nil
	}
	return levels[0]
}

func set(
	levels []*vega.PriceLevel, level *vega.PriceLevel, order func(a, b *vega.PriceLevel) int,
) []*vega.PriceLevel {
	at, found := slices.BinarySearchFunc(levels, level, order)
	gone := level.GetVolume() == 0 && level.GetNumberOfOrders() == 0
	switch {
	case gone && found:
		return slices.Delete(levels, at, at+1)
	case gone:
		return levels
	case found:
		levels[at] = level
		return levels
	default:
		return slices.Insert(levels, at, level)
	}
}
