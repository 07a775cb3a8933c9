package marketd

import (
	"context"
	"iter"
	"math"
	"strings"
	"time"

	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
	"marketd.example/marketd/gen/vega"
)

// MarketsOptions say which markets to list. The zero value lists every one.
type MarketsOptions struct {
	ListOptions
	// WithoutSettled leaves out settled and closed markets.
	WithoutSettled bool
}

// CandleInterval is the period of a candle.
type CandleInterval string

const (
	// EachBlock has a candle for each block.
	EachBlock      CandleInterval = "block"
	OneMinute      CandleInterval = "1 minute"
	FiveMinutes    CandleInterval = "5 minutes"
	FifteenMinutes CandleInterval = "15 minutes"
	OneHour        CandleInterval = "1 hour"
	SixHours       CandleInterval = "6 hours"
	OneDay         CandleInterval = "1 day"
)

// Markets yields every market that the network announced, by id, a page at a time. It ends after the first error.
func Markets(ctx context.Context, client Client, options MarketsOptions) iter.Seq2[*vega.Market, error] {
	includeSettled := !options.WithoutSettled
	return func(yield func(*vega.Market, error) bool) {
		nodes(options.pagination(nil), func(pagination *apiv2.Pagination) (*apiv2.MarketConnection, error) {
			request := &apiv2.ListMarketsRequest{Pagination: pagination, IncludeSettled: &includeSettled}
			response, err := client.ListMarkets(ctx, request)
			return response.GetMarkets(), err
		})(yield)
	}
}

// Assets yields every asset that the network announced, by id, a page at a time. It ends after the first error.
func Assets(ctx context.Context, client Client, options ListOptions) iter.Seq2[*vega.Asset, error] {
	return func(yield func(*vega.Asset, error) bool) {
		nodes(options.pagination(nil), func(pagination *apiv2.Pagination) (*apiv2.AssetsConnection, error) {
			response, err := client.ListAssets(ctx, &apiv2.ListAssetsRequest{Pagination: pagination})
			return response.GetAssets(), err
		})(yield)
	}
}

// Candles yields a market's candles whose periods begin from a time on and before another, oldest first, a page at a
// time. The running one is included; periods without trades have none. From zero: from the first candle that is kept.
// Until zero: up to the running candle. ScaledPrice and ScaledSize scale their numbers.
//
// It ends after the first error: go on from the start of the last candle, whose period may not have ended.
// CodeNotFound says that the market is unknown, CodeFailedPrecondition with the reason TRADES_NOT_RETAINED that from is
// before what is kept.
func Candles(
	ctx context.Context, client Client, marketID string, interval CandleInterval, from, until time.Time, options ListOptions,
) iter.Seq2[*apiv2.Candle, error] {
	candleID := "trades_candle_" + strings.ReplaceAll(string(interval), " ", "_") + "_" + marketID
	newestFirst := false
	return func(yield func(*apiv2.Candle, error) bool) {
		nodes(options.pagination(&newestFirst), func(pagination *apiv2.Pagination) (*apiv2.CandleDataConnection, error) {
			request := &apiv2.ListCandleDataRequest{CandleId: candleID, Pagination: pagination}
			if !from.IsZero() {
				request.FromTimestamp = nanoseconds(from)
			}
			if !until.IsZero() {
				request.ToTimestamp = nanoseconds(until)
			}
			response, err := client.ListCandleData(ctx, request)
			return response.GetCandles(), err
		})(yield)
	}
}

// The first and the last time whose nanoseconds 64 bits hold.
var firstTime, lastTime = time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)

// nanoseconds is a time in Unix nanoseconds, or the nearest that 64 bits hold: no block has another.
func nanoseconds(at time.Time) int64 {
	switch {
	case at.Before(firstTime):
		return math.MinInt64
	case at.After(lastTime):
		return math.MaxInt64
	}
	return at.UnixNano()
}
