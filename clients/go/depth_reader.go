package marketd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"connectrpc.com/connect"
	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
	"marketd.example/marketd/gen/vega"
)

// SilenceMax is how long a stream may be without a message before it is given up; a server sends one every 15 seconds.
const SilenceMax = 45 * time.Second

// DepthOptions say what to read. The zero value reads every market.
type DepthOptions struct {
	// MarketIDs to follow. None: every market, those announced later included.
	MarketIDs []string
	// SilenceMax replaces the package's own if it is not 0.
	SilenceMax time.Duration
	// OnConnect is called when a stream has sent its first message, before its first change, on each connection. Read here
	// what you keep of markets, such as their decimals, which may have changed meanwhile. An error is treated as the
	// stream's.
	OnConnect func(ctx context.Context) error
	// OnDisconnect is called when the stream broke, before each wait. The books are out of date until the next change.
	OnDisconnect func(err error, wait time.Duration)
}

// DepthChange is a book that has changed, and the update that changed it.
type DepthChange struct {
	// Book is as it is after the update. The next update changes the same object; a new connection has new books.
	Book   *DepthBook
	Update *vega.MarketDepthUpdate
}

// ReadDepth yields order books as they change, for as long as the caller reads: first every market's whole book, then
// each change. When the stream breaks it is opened again, after a wait, and starts with whole books. Read as slowly as
// you like: the server merges what you have not read yet.
//
// It ends when the context does, or with an error when trying again is of no use, such as CodeNotFound for an unknown
// market.
func ReadDepth(ctx context.Context, client Client, options DepthOptions) iter.Seq2[DepthChange, error] {
	return func(yield func(DepthChange, error) bool) {
		for failures := 1; ; failures++ {
			stopped := false
			err := readOnce(ctx, client, options, func(change DepthChange) bool {
				stopped = !yield(change, nil)
				return !stopped
			}, func() { failures = 1 })
			if stopped || ctx.Err() != nil {
				return
			}
			if !IsTransient(err) {
				yield(DepthChange{}, err)
				return
			}
			wait := RetryWait(err, failures, rand.Float64())
			if options.OnDisconnect != nil {
				options.OnDisconnect(err, wait)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	}
}

// readOnce yields the changes of one stream, and returns when it ends, always with an error, or when yield says so.
func readOnce(
	ctx context.Context, client Client, options DepthOptions, yield func(DepthChange) bool, onMessage func(),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silenceMax := options.SilenceMax
	if silenceMax == 0 {
		silenceMax = SilenceMax
	}
	silence := fmt.Errorf("no message for %v", silenceMax)
	books := map[string]*DepthBook{}
	timer := time.AfterFunc(silenceMax, cancel)
	stream, err := client.ObserveMarketsDepthUpdates(
		ctx, &apiv2.ObserveMarketsDepthUpdatesRequest{MarketIds: options.MarketIDs},
	)
	for first := true; err == nil && stream.Receive(); first = false {
		// Only the time that we wait counts, not the time that the caller takes over a change.
		timer.Stop()
		if first && options.OnConnect != nil {
			if err := options.OnConnect(ctx); err != nil {
				return err
			}
		}
		onMessage()
		for _, update := range stream.Msg().GetUpdate() {
			book := books[update.GetMarketId()]
			if book == nil {
				book = NewDepthBook(update.GetMarketId())
				books[update.GetMarketId()] = book
			}
			if book.Apply(update) == Gap {
				return connect.NewError(
					connect.CodeDataLoss, fmt.Errorf("updates of market %s are missing", update.GetMarketId()),
				)
			}
			if !yield(DepthChange{book, update}) {
				return nil
			}
		}
		timer.Reset(silenceMax)
	}
	if !timer.Stop() {
		return connect.NewError(connect.CodeUnavailable, silence)
	}
	if err == nil {
		err = stream.Err()
	}
	if err == nil {
		err = connect.NewError(connect.CodeUnavailable, errors.New("the stream ended"))
	}
	return err
}
