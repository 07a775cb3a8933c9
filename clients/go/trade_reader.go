package marketd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"
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
// It lists what there is, opens the stream, and lists once more up to the block at which the stream began. When the
// connection breaks, it does the same again after a wait, from the time of the last trade on. Of that time it leaves out
// as many trades of each id as it has yielded before: venues may use an id more than once. So nothing is missing or
// doubled, at any server of the database, and also if you read slowly. In a market that is quiet for longer than trades
// are kept, it goes on if the market's last trade shows that nothing was missed.
//
// It ends when the context does, or with an error when trying again is of no use: CodeNotFound for an unknown market,
// CodeFailedPrecondition with the reason TRADES_NOT_RETAINED if trades from that time on are not kept, CodeUnavailable with
// the reason CHAIN_CHANGED when the database holds another chain.
func Trades(
	ctx context.Context, client Client, marketID string, from time.Time, options TradesOptions,
) iter.Seq2[*vega.Trade, error] {
	return func(yield func(*vega.Trade, error) bool) {
		reader := &tradeReader{client: client, marketIDs: []string{marketID}, options: options}
		reader.given, reader.had = map[string]int{}, map[string]int{}
		if !from.IsZero() {
			timestamp := from.UnixNano()
			reader.timestamp = &timestamp
		}
		goesOnAfter := func(err error) bool {
			isLasting := connect.CodeOf(err) == connect.CodeDataLoss || errors.Is(err, ErrListDoesNotAdvance) || isOfOtherChain(err)
			return IsTransient(err) && !isLasting
		}
		withRetries(ctx, yield, options.OnDisconnect, goesOnAfter, func(yield func(*vega.Trade) error, onMessage func()) error {
			return reader.read(ctx, yield, onMessage)
		})
	}
}

// tradeReader reads trades over any number of connections.
type tradeReader struct {
	client    Client
	marketIDs []string
	options   TradesOptions
	// Trades from this time on are to be read, but for those that were. Blocks can have the same time.
	timestamp *int64
	// given is how many of each id were yielded, of this time.
	given map[string]int
	// had is how many of each id the list or stream that is read has had, of this time.
	had map[string]int
	// goesOn tells whether everything that there was has been read once.
	goesOn bool
}

// read yields the trades of one connection. It does not return nil.
func (r *tradeReader) read(ctx context.Context, yield func(*vega.Trade) error, onMessage func()) error {
	// Without a stream at first: a server ends one whose reader is busy with the past for minutes.
	if _, err := r.list(ctx, 0, yield, onMessage); err != nil {
		return err
	}
	var startedAt uint64
	open := func(ctx context.Context) (source[[]*vega.Trade], error) {
		stream, err := r.client.ObserveTrades(ctx, &apiv2.ObserveTradesRequest{MarketIds: r.marketIDs})
		if err != nil {
			return nil, err
		}
		return func() ([]*vega.Trade, error) {
			if !stream.Receive() {
				return nil, endOf(stream.Err())
			}
			startedAt = heightOf(stream.ResponseHeader())
			return stream.Msg().GetTrades(), nil
		}, nil
	}
	first := true
	return watched(ctx, r.options.SilenceMax, open, func(ctx context.Context, trades []*vega.Trade) error {
		if first {
			reached, err := r.list(ctx, startedAt, yield, onMessage)
			if err != nil {
				return err
			}
			// The stream goes on where the list ends, or has some of its trades again.
			if reached != startedAt || !maps.Equal(r.had, r.given) {
				clear(r.had)
			}
		}
		first = false
		onMessage()
		for _, trade := range trades {
			if r.isUnread(trade) {
				if err := yield(trade); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// list yields the trades up to a block, or later ones, and returns the block that they reach. It fails with
// CodeUnavailable if the server has not seen the block yet.
func (r *tradeReader) list(
	ctx context.Context, height uint64, yield func(*vega.Trade) error, onMessage func(),
) (uint64, error) {
	clear(r.had)
	var dateRange *apiv2.DateRange
	if r.timestamp != nil {
		start := *r.timestamp
		dateRange = &apiv2.DateRange{StartTimestamp: &start}
	}
	newestFirst := false
	var reached uint64
	list := func(pagination *apiv2.Pagination) (*apiv2.TradeConnection, error) {
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.options.SilenceMax, SilenceMax))
		defer cancel()
		ctx, call := connect.NewClientContext(ctx)
		response, err := r.client.ListTrades(ctx, &apiv2.ListTradesRequest{
			MarketIds: r.marketIDs, DateRange: dateRange, Pagination: pagination,
		})
		if err == nil {
			reached = heightOf(call.ResponseHeader())
		}
		return response.GetTrades(), err
	}
	read := func(pagination *apiv2.Pagination) (*apiv2.TradeConnection, error) {
		trades, err := list(pagination)
		if connect.CodeOf(err) != connect.CodeFailedPrecondition || !r.goesOn || r.timestamp == nil {
			return trades, err
		}
		if hasLast, lastErr := r.hasLast(ctx); !hasLast {
			return nil, cmp.Or(lastErr, err)
		}
		// What is kept is newer than that time.
		dateRange = nil
		return list(pagination)
	}
	for trade, err := range nodes(ListOptions{}.pagination(&newestFirst), read) {
		if err != nil {
			return 0, err
		}
		if r.isUnread(trade) {
			onMessage()
			if err := yield(trade); err != nil {
				return 0, err
			}
		}
	}
	r.goesOn = true
	if reached < height {
		return 0, connect.NewError(connect.CodeUnavailable,
			fmt.Errorf("trades are listed up to block %d, and streamed after %d", reached, height))
	}
	return reached, nil
}

// hasLast tells whether the market's last trade was yielded, so that none of those that are not kept any more is missing.
func (r *tradeReader) hasLast(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.options.SilenceMax, SilenceMax))
	defer cancel()
	response, err := r.client.GetLastTrade(ctx, &apiv2.GetLastTradeRequest{MarketId: r.marketIDs[0]})
	if connect.CodeOf(err) == connect.CodeNotFound {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	trade := response.GetTrade()
	if trade.GetTimestamp() == *r.timestamp {
		return r.given[trade.GetId()] > 0, nil
	}
	return trade.GetTimestamp() < *r.timestamp, nil
}

// isUnread tells whether a trade is to be yielded, which it is once.
func (r *tradeReader) isUnread(trade *vega.Trade) bool {
	at := trade.GetTimestamp()
	if r.timestamp == nil || at > *r.timestamp {
		r.timestamp = &at
		clear(r.given)
		clear(r.had)
	}
	if at < *r.timestamp {
		return false
	}
	id := trade.GetId()
	r.had[id]++
	if r.had[id] <= r.given[id] {
		return false
	}
	r.given[id]++
	return true
}

// heightOf returns the newest block of a response: of a list its own, of a stream that of its start. 0: there is none.
func heightOf(header http.Header) uint64 {
	height, _ := strconv.ParseUint(header.Get("X-Block-Height"), 10, 64)
	return height
}
