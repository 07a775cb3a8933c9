package marketd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
	"marketd.example/marketd/gen/vega"
)

// TradesOptions say how trades are read.
type TradesOptions struct {
	// SilenceMax replaces the package's own if it is not 0.
	SilenceMax time.Duration
	// OnDisconnect is called when the connection broke, before each wait.
	OnDisconnect func(err error, wait time.Duration)
}

// Trades yields a market's trades from a time on, oldest first, and then as they are made, for as long as the caller
// reads: each once, in the order of the network. From zero: from the first trade that is kept.
//
// It lists what there is, opens the stream, and goes on with the list up to the time at which the stream began; of the
// stream it yields what is later. When the connection breaks, it does the same again after a wait, from the time of the
// last trade on. Of that time it leaves out as many trades as it has yielded before. So nothing is missing or doubled, at
// any server of the database, and also if you read slowly, or if a venue uses an id more than once. In a market that is
// quiet for longer than trades are kept, it goes on if the market's last trade is the last one that was yielded.
//
// It ends when the context does, or with an error when trying again is of no use: CodeNotFound for an unknown market,
// CodeFailedPrecondition with the reason TRADES_NOT_RETAINED if trades from that time on are not kept, CodeUnavailable with
// the reason CHAIN_CHANGED when the database holds another chain.
func Trades(
	ctx context.Context, client Client, marketID string, from time.Time, options TradesOptions,
) iter.Seq2[*vega.Trade, error] {
	return func(yield func(*vega.Trade, error) bool) {
		reader := &tradeReader{client: client, marketIDs: []string{marketID}, options: options}
		if !from.IsZero() {
			timestamp := nanoseconds(from)
			reader.timestamp = &timestamp
		}
		goesOnAfter := func(err error) bool {
			// What a stream has no more may have been yielded: the next list tells.
			if connect.CodeOf(err) == connect.CodeFailedPrecondition {
				return !reader.isListing
			}
			isLasting := connect.CodeOf(err) == connect.CodeDataLoss || errors.Is(err, ErrListDoesNotAdvance) || isOfOtherChain(err)
			return IsTransient(err) && !isLasting
		}
		withRetries(ctx, yield, options.OnDisconnect, goesOnAfter, func(yield func(*vega.Trade) error, onMessage func()) error {
			return reader.read(ctx, yield, onMessage)
		})
	}
}

// listPlace tells how far the list of one connection was read.
type listPlace struct {
	// start is the time of the last trade that was yielded before it. Its first known trades of that time are left out.
	start int64
	known int
	// Trades up to floor are left out.
	floor *int64
	after string
	// reached is the newest time that the list is known to have reached. It has all trades of earlier times.
	reached int64
	// height is that of the newest block that the list has had since the stream began.
	height int64
}

// tradeReader reads trades over any number of connections.
type tradeReader struct {
	client    Client
	marketIDs []string
	options   TradesOptions
	// Trades from this time on are to be read, but for the first ones, which were. Blocks can have the same time.
	timestamp *int64
	// given is how many of this time were yielded, and last the last one.
	given int
	last  *vega.Trade
	// goesOn tells whether everything that there was has been read once.
	goesOn bool
	// isListing tells whether a list is read, and not the stream.
	isListing bool
}

// read yields the trades of one connection. It does not return nil.
func (r *tradeReader) read(ctx context.Context, yield func(*vega.Trade) error, onMessage func()) error {
	place := &listPlace{start: r.time(), known: r.given}
	// Without a stream at first: a server ends one whose reader is busy with the past for minutes.
	if err := r.list(ctx, place, math.MaxInt64, yield, onMessage); err != nil {
		return err
	}
	var startHeight, startedAt int64
	open := func(ctx context.Context) (source[[]*vega.Trade], error) {
		stream, err := r.client.ObserveTrades(ctx, &apiv2.ObserveTradesRequest{MarketIds: r.marketIDs})
		if err != nil {
			return nil, err
		}
		return func() ([]*vega.Trade, error) {
			if !stream.Receive() {
				return nil, endOf(stream.Err())
			}
			startHeight, startedAt = blockOf(stream.ResponseHeader())
			return stream.Msg().GetTrades(), nil
		}, nil
	}
	first := true
	overlaps := false
	var until int64
	place.height = -1
	// Blocks of one time can be on both sides of the stream's start. If it has a trade of such a block, only a list that
	// reaches a later time has all of that time.
	isListed := func() bool {
		hasStart := place.height >= startHeight && place.known == 0 && !overlaps
		return place.reached > until || place.reached == until && hasStart
	}
	return watched(ctx, r.options.SilenceMax, open, func(ctx context.Context, trades []*vega.Trade) error {
		if first {
			until = max(startedAt, r.time())
		}
		first = false
		isOverlap := func(trade *vega.Trade) bool { return trade.GetTimestamp() <= until }
		overlaps = overlaps || slices.ContainsFunc(trades, isOverlap)
		if !isListed() {
			if err := r.list(ctx, place, until, yield, onMessage); err != nil {
				return err
			}
		}
		onMessage()
		for _, trade := range trades {
			if isOverlap(trade) {
				continue
			}
			if !isListed() {
				return connect.NewError(connect.CodeUnavailable,
					fmt.Errorf("trades are streamed after %d, and not listed up to there", until))
			}
			if err := r.give(trade, yield); err != nil {
				return err
			}
		}
		return nil
	})
}

// time is that of the last trade, or where reading began; 0: there is none.
func (r *tradeReader) time() int64 {
	if r.timestamp == nil {
		return 0
	}
	return *r.timestamp
}

// list goes on with a list, up to the newest trade, or to a time. It fails with CodeUnavailable if the server has
// another chain.
func (r *tradeReader) list(
	ctx context.Context, place *listPlace, until int64, yield func(*vega.Trade) error, onMessage func(),
) error {
	r.isListing = true
	newestFirst := false
	pagination := ListOptions{}.pagination(&newestFirst)
	if after := place.after; after != "" {
		pagination.After = &after
	}
	read := func(pagination *apiv2.Pagination) (*apiv2.TradeConnection, error) {
		return r.page(ctx, place, pagination)
	}
	for edges, err := range pages[*apiv2.TradeEdge](pagination, read) {
		if err != nil {
			return err
		}
		for _, edge := range edges {
			trade := edge.GetNode()
			place.reached = max(place.reached, trade.GetTimestamp())
			if trade.GetTimestamp() > until {
				break
			}
			place.after = edge.GetCursor()
			isUnread, err := r.isUnread(place, trade)
			if err != nil {
				return err
			}
			if isUnread {
				onMessage()
				if err := r.give(trade, yield); err != nil {
					return err
				}
			}
		}
		if place.reached > until {
			break
		}
	}
	if place.known > 0 && place.reached > place.start {
		return ofOtherChain()
	}
	r.goesOn = true
	r.isListing = false
	return nil
}

func (r *tradeReader) page(
	ctx context.Context, place *listPlace, pagination *apiv2.Pagination,
) (*apiv2.TradeConnection, error) {
	var height, reached int64
	list := func(dateRange *apiv2.DateRange, pagination *apiv2.Pagination) (*apiv2.TradeConnection, error) {
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.options.SilenceMax, SilenceMax))
		defer cancel()
		ctx, call := connect.NewClientContext(ctx)
		response, err := r.client.ListTrades(ctx, &apiv2.ListTradesRequest{
			MarketIds: r.marketIDs, DateRange: dateRange, Pagination: pagination,
		})
		if err == nil {
			height, reached = blockOf(call.ResponseHeader())
		}
		return response.GetTrades(), err
	}
	var dateRange *apiv2.DateRange
	if pagination.After == nil && r.timestamp != nil {
		dateRange = &apiv2.DateRange{StartTimestamp: &place.start}
	}
	trades, err := list(dateRange, pagination)
	if connect.CodeOf(err) == connect.CodeFailedPrecondition && r.goesOn && r.timestamp != nil {
		if hasLast, lastErr := r.hasLast(ctx); !hasLast {
			return nil, cmp.Or(lastErr, err)
		}
		// All that was yielded is older than what is kept, but for blocks of that time.
		place.known = 0
		if r.given > 0 {
			floor := *r.timestamp
			place.floor = &floor
		}
		trades, err = list(nil, ListOptions{}.pagination(pagination.NewestFirst))
	}
	// How far the list reaches is told by its last page.
	if err == nil && !trades.GetPageInfo().GetHasNextPage() {
		place.reached = max(place.reached, reached)
		place.height = height
	}
	return trades, err
}

// hasLast tells whether the market's last trade was yielded, so that none of those that are not kept any more is missing.
// It fails with CodeUnavailable if the server lacks those that were yielded.
func (r *tradeReader) hasLast(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.options.SilenceMax, SilenceMax))
	defer cancel()
	response, err := r.client.GetLastTrade(ctx, &apiv2.GetLastTradeRequest{MarketId: r.marketIDs[0]})
	isNone := connect.CodeOf(err) == connect.CodeNotFound
	if err != nil && !isNone {
		return false, err
	}
	trade := response.GetTrade()
	isBefore := isNone || trade.GetTimestamp() < *r.timestamp
	if isBefore && r.given > 0 {
		return false, ofOtherChain()
	}
	// Others can have its id and its time.
	return isBefore || proto.Equal(trade, r.last), nil
}

// isUnread tells whether a trade of a list was not yielded before. It fails if those that were are not there.
func (r *tradeReader) isUnread(place *listPlace, trade *vega.Trade) (bool, error) {
	if place.known == 0 {
		return place.floor == nil || trade.GetTimestamp() > *place.floor, nil
	}
	place.known--
	if trade.GetTimestamp() != place.start || place.known == 0 && !proto.Equal(trade, r.last) {
		return false, ofOtherChain()
	}
	return false, nil
}

// give yields a trade, and notes that.
func (r *tradeReader) give(trade *vega.Trade, yield func(*vega.Trade) error) error {
	at := trade.GetTimestamp()
	if r.timestamp == nil || *r.timestamp != at {
		r.given = 0
	}
	r.given++
	r.timestamp = &at
	// A copy: the caller may change what it is given.
	r.last = proto.CloneOf(trade)
	return yield(trade)
}

// blockOf returns height and time of the newest block of a response: of a list its own, of a stream its start. 0: there is
// none.
func blockOf(header http.Header) (height, timestamp int64) {
	height, _ = strconv.ParseInt(header.Get("X-Block-Height"), 10, 64)
	timestamp, _ = strconv.ParseInt(header.Get("X-Block-Timestamp"), 10, 64)
	return height, timestamp
}
