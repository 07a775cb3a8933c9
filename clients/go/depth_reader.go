package marketd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
	historyv1 "marketd.example/marketd/gen/marketd/history/v1"
	"marketd.example/marketd/gen/vega"
)

// newest is the token that opens a stream at the newest block.
const newest = "live"

// DepthOptions say what to read. The zero value reads every market.
type DepthOptions struct {
	// MarketIDs to follow. None: every market, those announced later included.
	MarketIDs []string
	// SilenceMax replaces the package's own if it is not 0.
	SilenceMax time.Duration
	// OnConnect is called when a stream has sent its first message, before its first change, on each connection. An error
	// is treated as the stream's.
	OnConnect func(ctx context.Context) error
	// OnDisconnect is called when the stream broke, before each wait. The books are out of date until the next OnConnect.
	OnDisconnect func(err error, wait time.Duration)
	// OnStatus is called when a market's state or decimals are others, before the change of its book. The book of a market
	// that is STALE is unknown until it is WHOLE again.
	OnStatus func(status *historyv1.MarketHistoryStatus)
}

// ReplayOptions say which part of the past to read, and how fast. The zero value reads everything that is kept, as fast
// as the caller does, and then the live stream.
type ReplayOptions struct {
	DepthOptions
	// From starts with the books as of this time. Zero: with the oldest that are kept.
	From time.Time
	// Until ends before the first block that is not earlier. Zero: go on with the live stream, without end.
	Until time.Time
	// Speed is seconds of the past in a second, 0.01 to 1000; 1: as it happened. Zero: as fast as the caller reads.
	Speed float64
	// EveryUpdate yields a change for each block, however slowly the caller reads. It needs Until.
	EveryUpdate bool
}

// DepthChange is a book that has changed, and the update that changed it.
type DepthChange struct {
	// Book is as it is after the update. The next update changes the same object; a whole book is another object.
	Book   *DepthBook
	Update *vega.MarketDepthUpdate
	// Block is the one that the book is of, with its time. Nil from a server without MarketHistoryService.
	Block *historyv1.BlockPlace
	// Scale is that of the book's numbers, for ScaledPrice and ScaledSize. Nil likewise.
	Scale *historyv1.MarketHistoryStatus
	// Live is false while a replay is in the past.
	Live bool
}

// ReadDepth yields order books as they change, for as long as the caller reads: first every market's whole book, then
// each change. When the stream breaks it is opened again, after a wait, and goes on with what changed meanwhile. Only
// where the server cannot tell that, it starts with whole books again. Read as slowly as you like: the server merges
// what you have not read yet.
//
// It ends when the context does, or with an error when trying again is of no use, such as CodeNotFound for an unknown
// market.
func ReadDepth(ctx context.Context, client Client, options DepthOptions) iter.Seq2[DepthChange, error] {
	return func(yield func(DepthChange, error) bool) {
		(&depthReader{client: client, options: options, live: true}).read(ctx, yield)
	}
}

// Replay yields the same of a time in the past on, so that the code that reads it is the same. With Until it ends there;
// without, it becomes live, and no change is missing or doubled between. It ends with CodeFailedPrecondition or
// CodeOutOfRange if that time is not kept.
func Replay(ctx context.Context, client Client, options ReplayOptions) iter.Seq2[DepthChange, error] {
	past := &historyv1.ReplayMarketsDepthRequest{MarketIds: options.MarketIDs}
	if !options.From.IsZero() {
		from := nanoseconds(options.From)
		past.FromTimestamp = &from
	}
	if !options.Until.IsZero() {
		until := nanoseconds(options.Until)
		past.UntilTimestamp = &until
	}
	if options.Speed != 0 {
		speed := strconv.FormatFloat(options.Speed, 'f', -1, 64)
		past.Speed = &speed
	}
	if options.EveryUpdate {
		past.EveryUpdate = &options.EveryUpdate
	}
	return func(yield func(DepthChange, error) bool) {
		(&depthReader{client: client, options: options.DepthOptions, past: past}).read(ctx, yield)
	}
}

// BookAt returns a market's order book as it was at a time, and the response that it is of: its block, last trade and
// decimals. For a block's height or stream sequence number call GetMarketDepthAt. It fails with CodeFailedPrecondition
// or CodeOutOfRange if that time is not kept.
func BookAt(
	ctx context.Context, client Client, marketID string, at time.Time,
) (*DepthBook, *historyv1.GetMarketDepthAtResponse, error) {
	timestamp := nanoseconds(at)
	request := &historyv1.GetMarketDepthAtRequest{MarketId: marketID, Timestamp: &timestamp}
	response, err := client.GetMarketDepthAt(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	update := &vega.MarketDepthUpdate{
		MarketId: marketID, Buy: response.GetBuy(), Sell: response.GetSell(), SequenceNumber: response.GetSequenceNumber(),
	}
	if err := checkPrices(update); err != nil {
		return nil, nil, err
	}
	book := NewDepthBook(marketID)
	book.Apply(update)
	return book, response, nil
}

// depthReader keeps books over any number of connections.
type depthReader struct {
	client  Client
	options DepthOptions
	// past is nil for the live stream.
	past *historyv1.ReplayMarketsDepthRequest
	live bool
	// token is that of the last message whose changes are in the books; empty: there is none.
	token string
	// found is set when a server had what is asked for.
	found  bool
	books  map[string]*DepthBook
	scales map[string]*historyv1.MarketHistoryStatus
}

// message is what a stream said of one block, or of several that were merged.
type message struct {
	update   []*vega.MarketDepthUpdate
	status   []*historyv1.MarketHistoryStatus
	block    *historyv1.BlockPlace
	caughtUp bool
	token    string
}

func (r *depthReader) read(ctx context.Context, yield func(DepthChange, error) bool) {
	withRetries(ctx, yield, r.options.OnDisconnect, r.goesOnAfter, func(yield func(DepthChange) error, onMessage func()) error {
		return r.readOnce(ctx, yield, onMessage)
	})
}

// goesOnAfter tells whether another connection can be of use. The live stream begins with whole books where it cannot go
// on.
func (r *depthReader) goesOnAfter(err error) bool {
	code := connect.CodeOf(err)
	// Another server had this time before.
	if code == connect.CodeOutOfRange && r.found && !r.live {
		return true
	}
	damaged := code == connect.CodeDataLoss
	if IsTransient(err) && (r.live || !damaged) {
		if damaged {
			r.token = ""
		}
		return true
	}
	refused := code == connect.CodeFailedPrecondition || code == connect.CodeInvalidArgument
	if !r.live || r.token == "" || !refused {
		return false
	}
	r.token = ""
	return true
}

// readOnce yields the changes of one stream. It returns nil when a replay has ended.
func (r *depthReader) readOnce(ctx context.Context, yield func(DepthChange) error, onMessage func()) error {
	if r.token == "" {
		r.books, r.scales = map[string]*DepthBook{}, map[string]*historyv1.MarketHistoryStatus{}
	}
	err := r.readStream(ctx, r.openReplay, yield, onMessage)
	if r.live && connect.CodeOf(err) == connect.CodeUnimplemented {
		// An older server: every connection begins with whole books.
		r.token = ""
		err = r.readStream(ctx, r.openPlain, yield, onMessage)
	}
	if errors.Is(err, errEnd) && !r.live && r.past.UntilTimestamp != nil {
		return nil
	}
	return err
}

// readStream does not return nil.
func (r *depthReader) readStream(
	ctx context.Context, open opener[*message], yield func(DepthChange) error, onMessage func(),
) error {
	first := true
	return watched(ctx, r.options.SilenceMax, open, func(ctx context.Context, whole *message) error {
		r.found = true
		if whole == nil {
			return nil
		}
		if first && r.options.OnConnect != nil {
			if err := r.options.OnConnect(ctx); err != nil {
				return err
			}
		}
		first = false
		onMessage()
		changes, err := r.changes(whole)
		if err != nil {
			return err
		}
		for _, change := range changes {
			if err := yield(change); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *depthReader) openReplay(ctx context.Context) (source[*message], error) {
	token := cmp.Or(r.token, newest)
	request := &historyv1.ReplayMarketsDepthRequest{MarketIds: r.options.MarketIDs, ResumeToken: &token}
	if !r.live {
		request = proto.CloneOf(r.past)
		if r.token != "" {
			request.FromTimestamp, request.ResumeToken = nil, &token
		}
	}
	stream, err := r.client.ReplayMarketsDepth(ctx, request)
	if err != nil {
		return nil, err
	}
	// Nil stands for a part of a message that goes on.
	var parts message
	return func() (*message, error) {
		if !stream.Receive() {
			return nil, endOf(stream.Err())
		}
		part := stream.Msg()
		parts.update = append(parts.update, part.GetUpdate()...)
		parts.status = append(parts.status, part.GetStatus()...)
		parts.caughtUp = parts.caughtUp || part.GetCaughtUp()
		if part.GetBlock() == nil {
			return nil, nil
		}
		whole := parts
		whole.block, whole.token = part.GetBlock(), part.GetResumeToken()
		parts = message{}
		return &whole, nil
	}, nil
}

func (r *depthReader) openPlain(ctx context.Context) (source[*message], error) {
	request := &apiv2.ObserveMarketsDepthUpdatesRequest{MarketIds: r.options.MarketIDs}
	stream, err := r.client.ObserveMarketsDepthUpdates(ctx, request)
	if err != nil {
		return nil, err
	}
	return func() (*message, error) {
		if !stream.Receive() {
			return nil, endOf(stream.Err())
		}
		return &message{update: stream.Msg().GetUpdate()}, nil
	}, nil
}

// changes applies a whole message.
func (r *depthReader) changes(whole *message) ([]DepthChange, error) {
	for _, status := range whole.status {
		r.scales[status.GetMarketId()] = status
		if status.GetState() == historyv1.MarketHistoryState_MARKET_HISTORY_STATE_STALE {
			delete(r.books, status.GetMarketId())
		}
		if r.options.OnStatus != nil {
			r.options.OnStatus(status)
		}
	}
	live := r.live || whole.caughtUp
	changes := make([]DepthChange, 0, len(whole.update))
	for _, update := range whole.update {
		id := update.GetMarketId()
		book := r.books[id]
		if book == nil || update.GetPreviousSequenceNumber() == 0 {
			book = NewDepthBook(id)
			r.books[id] = book
		}
		if err := checkPrices(update); err != nil {
			return nil, err
		}
		if book.Apply(update) == Gap {
			return nil, connect.NewError(connect.CodeDataLoss, fmt.Errorf("updates of market %s are missing", id))
		}
		changes = append(changes, DepthChange{book, update, whole.block, r.scales[id], live})
	}
	r.live, r.token = live, whole.token
	return changes, nil
}

// priceDigitsMax is the number of decimal digits of 256 bits.
const priceDigitsMax = 78

func checkPrices(update *vega.MarketDepthUpdate) error {
	for _, side := range [][]*vega.PriceLevel{update.GetBuy(), update.GetSell()} {
		for _, level := range side {
			price := level.GetPrice()
			if price == "" || len(price) > priceDigitsMax || strings.Trim(price, "0123456789") != "" {
				return connect.NewError(
					connect.CodeDataLoss, fmt.Errorf("market %s has the price %s", quoted(update.GetMarketId()), quoted(price)),
				)
			}
		}
	}
	return nil
}
