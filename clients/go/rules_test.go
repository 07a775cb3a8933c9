package marketd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
	"marketd.example/marketd/gen/datanode/api/v2/apiv2connect"
	historyv1 "marketd.example/marketd/gen/marketd/history/v1"
	"marketd.example/marketd/gen/marketd/history/v1/historyv1connect"
	"marketd.example/marketd/gen/vega"
)

type book struct {
	Sequence  string
	Buy, Sell []string
}

type update struct {
	book
	Previous string
	Outcome  Outcome
}

type replayMessage struct {
	Update       []update
	Block, Token string
	// Status is state, price and size decimals.
	Status   []string
	CaughtUp bool
}

// cases are those that the clients in every language are tried with, in the file that CASES names.
var cases struct {
	DepthUpdates []struct {
		Name    string
		Updates []update
		Book    *book
	}
	Waits []struct {
		Name, RetryAfter string
		Code             uint32
		RetryInfoMs      *int64
		Failures         int
		Random           float64
		WaitMs           int64
	}
	PermanentCodes []uint32
	Exports        []struct {
		Name   string
		Pieces []string
		Stated map[string]string
		Error  *string
	}
	Lists []struct {
		Name, After string
		EndCursors  []string
		Advances    bool
	}
	Scales []struct {
		Name        string
		Price, Size scale
	}
	// Replays are streams of MarketHistoryService as a server sends them, and what a reader of them asks for and sees.
	Replays []struct {
		Name string
		// Past is nil for the live stream.
		Past    *struct{ From, Until, Speed string }
		Streams []struct {
			Messages []replayMessage
			End      uint32
		}
		Requests, Seen []string
	}
	// Amounts are balances, and what they are with an asset's decimals: nil for an asset that is not announced.
	Amounts []struct {
		Name, Amount, Error string
		Decimals, Scaled    *string
	}
	// Trades are what a server does at each call, and what a reader asks for and sees. A trade is its id and time.
	Trades []struct {
		Name           string
		From           *string
		Calls          []tradeCall
		Requests, Seen []string
	}
	URLs []struct {
		URL   string
		Valid bool
	}
}

type tradeCall struct {
	// Time is that of the block that the response names, and Height its height; none: the same number. Next is the cursor
	// of the next page of a list, if any.
	Call, Time, Height, Next string
	Trades                   []string
	Messages                 [][]string
	// End is the code of the error; 0: it ends well.
	End uint32
	// Reason is the one of the error's details.
	Reason string
}

// scale is an integer, decimal places, and what it stands for: nil where the places cannot be right.
type scale struct {
	Integer string
	Places  int64
	Scaled  *string
}

func (s *scale) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&s.Integer, &s.Places, &s.Scaled})
}

func TestMain(m *testing.M) {
	text, err := os.ReadFile(os.Getenv("CASES"))
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "CASES must name the table of cases:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// levels reads levels written as "price volume orders".
func levels(texts []string) []*vega.PriceLevel {
	var all []*vega.PriceLevel
	for _, text := range texts {
		parts := strings.Fields(text)
		all = append(all, &vega.PriceLevel{Price: parts[0], Volume: number(parts[1]), NumberOfOrders: number(parts[2])})
	}
	return all
}

func texts(levels []*vega.PriceLevel) []string {
	all := []string{}
	for _, level := range levels {
		all = append(all, fmt.Sprint(level.GetPrice(), " ", level.GetVolume(), " ", level.GetNumberOfOrders()))
	}
	return all
}

func (u update) message() *vega.MarketDepthUpdate {
	return &vega.MarketDepthUpdate{
		MarketId: "m", Buy: levels(u.Buy), Sell: levels(u.Sell),
		SequenceNumber: number(u.Sequence), PreviousSequenceNumber: number(u.Previous),
	}
}

func TestDepthBook(t *testing.T) {
	for _, one := range cases.DepthUpdates {
		t.Run(one.Name, func(t *testing.T) {
			kept := NewDepthBook("m")
			for _, update := range one.Updates {
				if outcome := kept.Apply(update.message()); outcome != update.Outcome {
					t.Errorf("to %s: %s instead of %s", update.Sequence, outcome, update.Outcome)
				}
			}
			want := book{Buy: []string{}, Sell: []string{}}
			if one.Book != nil {
				want = *one.Book
			}
			got := book{Buy: texts(kept.Buy()), Sell: texts(kept.Sell())}
			if sequence, held := kept.SequenceNumber(); held {
				got.Sequence = fmt.Sprint(sequence)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if (kept.BestBid() == nil) != (len(want.Buy) == 0) || (kept.BestOffer() == nil) != (len(want.Sell) == 0) {
				t.Error("the best levels are not those of the book")
			}
		})
	}
}

func TestRetryWait(t *testing.T) {
	for _, one := range cases.Waits {
		t.Run(one.Name, func(t *testing.T) {
			failure := connect.NewError(connect.Code(one.Code), errors.New("failed"))
			if one.RetryAfter != "" {
				failure.Meta().Set("Retry-After", one.RetryAfter)
			}
			if one.RetryInfoMs != nil {
				delay := durationpb.New(time.Duration(*one.RetryInfoMs) * time.Millisecond)
				detail, err := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: delay})
				if err != nil {
					t.Fatal(err)
				}
				failure.AddDetail(detail)
			}
			if wait := RetryWait(failure, one.Failures, one.Random).Milliseconds(); wait != one.WaitMs {
				t.Errorf("%d ms instead of %d", wait, one.WaitMs)
			}
		})
	}
	var permanent []uint32
	for code := connect.CodeCanceled; code <= connect.CodeUnauthenticated; code++ {
		if !IsTransient(connect.NewError(code, nil)) {
			permanent = append(permanent, uint32(code))
		}
	}
	if !reflect.DeepEqual(permanent, cases.PermanentCodes) {
		t.Errorf("permanent: %v instead of %v", permanent, cases.PermanentCodes)
	}
}

func TestExportCheck(t *testing.T) {
	for _, one := range cases.Exports {
		t.Run(one.Name, func(t *testing.T) {
			check := newExportCheck()
			var err error
			for _, piece := range one.Pieces {
				err = errors.Join(err, check.update([]byte(piece)))
			}
			stated := http.Header{}
			for name, value := range one.Stated {
				stated.Set(name, value)
			}
			summary, differs := check.finish(stated)
			if err == nil {
				err = differs
			}
			switch {
			case one.Error == nil:
				if err != nil || summary.SHA256 != one.Stated["export-sha256"] {
					t.Errorf("%v, %v", summary, err)
				}
			case !errors.Is(err, ErrExportDiffers) || !strings.Contains(err.Error(), *one.Error):
				t.Errorf("%v does not say %q", err, *one.Error)
			case len(err.Error()) > 200 || strings.ContainsAny(err.Error(), "\u001b\u202e"):
				t.Errorf("%q is not to be printed", err)
			}
		})
	}
}

// scripted is a service: each depth stream sends the updates of the next script, then does as the script ends.
type scripted struct {
	apiv2connect.UnimplementedTradingDataServiceHandler
	scripts  []script
	pages    []*apiv2.ListLedgerEntriesResponse
	requests []*apiv2.ListLedgerEntriesRequest
}

type script struct {
	messages [][]*vega.MarketDepthUpdate
	end      func(context.Context) error
}

func (s *scripted) ObserveMarketsDepthUpdates(
	ctx context.Context, _ *apiv2.ObserveMarketsDepthUpdatesRequest,
	stream *connect.ServerStream[apiv2.ObserveMarketsDepthUpdatesResponse],
) error {
	script := s.scripts[0]
	s.scripts = s.scripts[1:]
	for _, updates := range script.messages {
		if err := stream.Send(&apiv2.ObserveMarketsDepthUpdatesResponse{Update: updates}); err != nil {
			return err
		}
	}
	return script.end(ctx)
}

func (s *scripted) ListLedgerEntries(
	_ context.Context, request *apiv2.ListLedgerEntriesRequest,
) (*apiv2.ListLedgerEntriesResponse, error) {
	s.requests = append(s.requests, proto.CloneOf(request))
	page := s.pages[0]
	s.pages = s.pages[1:]
	return page, nil
}

func serve(t *testing.T, service apiv2connect.TradingDataServiceHandler) Client {
	_, handler := apiv2connect.NewTradingDataServiceHandler(service)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return NewClient(server.URL)
}

func TestReadDepth(t *testing.T) {
	of := func(previous, sequence, level string) []*vega.MarketDepthUpdate {
		return []*vega.MarketDepthUpdate{update{book{sequence, []string{level}, nil}, previous, ""}.message()}
	}
	whole, next, afterNext := of("0", "10", "9 1 1"), of("10", "20", "9 2 1"), of("30", "40", "9 3 1")
	ended := func(context.Context) error { return nil }
	fails := func(code connect.Code) func(context.Context) error {
		return func(context.Context) error { return connect.NewError(code, errors.New("as scripted")) }
	}
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	type messages = [][]*vega.MarketDepthUpdate
	client := serve(t, &scripted{scripts: []script{
		{messages{whole, next}, ended},
		{messages{whole}, fails(connect.CodeUnavailable)},
		{messages{nil, whole, afterNext}, ended},
		{messages{whole}, silent},
		{messages{whole}, fails(connect.CodeNotFound)},
	}})
	var seen []string
	for change, err := range ReadDepth(t.Context(), client, DepthOptions{
		SilenceMax:   500 * time.Millisecond,
		OnConnect:    func(context.Context) error { seen = append(seen, "connected"); return nil },
		OnDisconnect: func(err error, _ time.Duration) { seen = append(seen, err.Error()) },
	}) {
		if err != nil {
			seen = append(seen, err.Error())
			continue
		}
		sequence, _ := change.Book.SequenceNumber()
		seen = append(seen, fmt.Sprint(sequence, ": ", change.Book.BestBid().GetVolume()))
	}
	want := []string{
		"connected", "10: 1", "20: 2", "unavailable: the stream ended",
		"connected", "10: 1", "unavailable: as scripted",
		"connected", "10: 1", "data_loss: updates of market m are missing",
		"connected", "10: 1", "unavailable: no message for 500ms",
		"connected", "10: 1", "not_found: as scripted",
	}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
}

func (m replayMessage) message() *historyv1.ReplayMarketsDepthResponse {
	message := &historyv1.ReplayMarketsDepthResponse{ResumeToken: m.Token, CaughtUp: m.CaughtUp}
	if m.Block != "" {
		message.Block = &historyv1.BlockPlace{StreamSequence: number(m.Block)}
	}
	for _, update := range m.Update {
		message.Update = append(message.Update, update.message())
	}
	for _, text := range m.Status {
		parts := strings.Fields(text)
		message.Status = append(message.Status, &historyv1.MarketHistoryStatus{
			MarketId:              "m",
			State:                 historyv1.MarketHistoryState(historyv1.MarketHistoryState_value[statePrefix+parts[0]]),
			DecimalPlaces:         number(parts[1]),
			PositionDecimalPlaces: int64(number(parts[2])),
		})
	}
	return message
}

const statePrefix = "MARKET_HISTORY_STATE_"

// replays is a service whose streams are those of a case.
type replays struct {
	historyv1connect.UnimplementedMarketHistoryServiceHandler
	send  func(request string, stream *connect.ServerStream[historyv1.ReplayMarketsDepthResponse]) error
	asked int64
}

func (r *replays) ReplayMarketsDepth(
	_ context.Context, request *historyv1.ReplayMarketsDepthRequest,
	stream *connect.ServerStream[historyv1.ReplayMarketsDepthResponse],
) error {
	var fields []string
	if request.FromTimestamp != nil {
		fields = append(fields, fmt.Sprint("from=", request.GetFromTimestamp()))
	}
	if request.UntilTimestamp != nil {
		fields = append(fields, fmt.Sprint("until=", request.GetUntilTimestamp()))
	}
	if request.Speed != nil {
		fields = append(fields, "speed="+request.GetSpeed())
	}
	if request.ResumeToken != nil {
		fields = append(fields, "token="+request.GetResumeToken())
	}
	return r.send(strings.Join(fields, " "), stream)
}

func (r *replays) GetMarketDepthAt(
	_ context.Context, request *historyv1.GetMarketDepthAtRequest,
) (*historyv1.GetMarketDepthAtResponse, error) {
	r.asked = request.GetTimestamp()
	return &historyv1.GetMarketDepthAtResponse{
		MarketId: request.GetMarketId(), Buy: levels([]string{"9 1 1"}), SequenceNumber: 7,
		DecimalPlaces: 2, PositionDecimalPlaces: -1,
	}, nil
}

func serveReplays(t *testing.T, service *replays) Client {
	_, handler := historyv1connect.NewMarketHistoryServiceHandler(service)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return NewClient(server.URL)
}

func TestReplays(t *testing.T) {
	for _, one := range cases.Replays {
		t.Run(one.Name, func(t *testing.T) {
			var requests, seen []string
			client := serveReplays(t, &replays{send: func(
				request string, stream *connect.ServerStream[historyv1.ReplayMarketsDepthResponse],
			) error {
				script := one.Streams[len(requests)]
				requests = append(requests, request)
				for _, message := range script.Messages {
					if err := stream.Send(message.message()); err != nil {
						return err
					}
				}
				if script.End == 0 {
					return nil
				}
				return connect.NewError(connect.Code(script.End), errors.New("as scripted"))
			}})
			options := DepthOptions{
				OnConnect:    func(context.Context) error { seen = append(seen, "connected"); return nil },
				OnDisconnect: func(err error, _ time.Duration) { seen = append(seen, messageOf(err)) },
				OnStatus: func(status *historyv1.MarketHistoryStatus) {
					seen = append(seen, strings.TrimPrefix(status.GetState().String(), statePrefix))
				},
			}
			changes := ReadDepth(t.Context(), client, options)
			if one.Past != nil {
				past := ReplayOptions{DepthOptions: options, From: time.Unix(0, int64(number(one.Past.From)))}
				if one.Past.Until != "" {
					past.Until = time.Unix(0, int64(number(one.Past.Until)))
					past.Speed, _ = strconv.ParseFloat(one.Past.Speed, 64)
				}
				changes = Replay(t.Context(), client, past)
			}
			books, wholeBooks := map[*DepthBook]bool{}, 0
			for change, err := range changes {
				if err != nil {
					seen = append(seen, messageOf(err))
					continue
				}
				books[change.Book] = true
				if change.Update.GetPreviousSequenceNumber() == 0 {
					wholeBooks++
				}
				sequence, _ := change.Book.SequenceNumber()
				live := map[bool]string{true: " live"}[change.Live]
				place := change.Block.GetStreamSequence()
				seen = append(seen, fmt.Sprint(sequence, ": ", change.Book.BestBid().GetVolume(), " at ", place, live))
				if change.Scale.GetPositionDecimalPlaces() != 3 {
					t.Errorf("the scale is %v", change.Scale)
				}
			}
			if !reflect.DeepEqual(seen, one.Seen) || !reflect.DeepEqual(requests, one.Requests) {
				t.Errorf("asked %q, saw %q", requests, seen)
			}
			if len(books) != wholeBooks {
				t.Errorf("%d books of %d whole ones", len(books), wholeBooks)
			}
		})
	}
}

func messageOf(err error) string {
	var failure *connect.Error
	if errors.As(err, &failure) {
		return failure.Message()
	}
	return err.Error()
}

func TestBookAt(t *testing.T) {
	service := &replays{}
	at := time.Unix(1_700_000_000, 123_456_789)
	book, response, err := BookAt(t.Context(), serveReplays(t, service), "m", at)
	if err != nil || service.asked != at.UnixNano() {
		t.Fatal(service.asked, err)
	}
	price, priceErr := ScaledPrice(response, book.BestBid().GetPrice())
	size, sizeErr := ScaledSize(response, 1)
	if sequence, _ := book.SequenceNumber(); sequence != 7 || price != "0.09" || size != "10" {
		t.Error(sequence, price, size, priceErr, sizeErr)
	}
}

func TestReadDepthEndsWithItsContext(t *testing.T) {
	whole := []*vega.MarketDepthUpdate{update{book{Sequence: "10"}, "0", ""}.message()}
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	client := serve(t, &scripted{scripts: []script{{[][]*vega.MarketDepthUpdate{whole}, silent}}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range ReadDepth(ctx, client, DepthOptions{}) {
		if err != nil {
			t.Error(err)
		}
		cancel()
	}
}

func TestLedgerEntries(t *testing.T) {
	page := func(cursors string, more bool, end string) *apiv2.ListLedgerEntriesResponse {
		var edges []*LedgerEdge
		for _, cursor := range cursors {
			edges = append(edges, &LedgerEdge{Cursor: string(cursor)})
		}
		info := &apiv2.PageInfo{HasNextPage: more, EndCursor: end}
		return &apiv2.ListLedgerEntriesResponse{
			LedgerEntries: &apiv2.AggregatedLedgerEntriesConnection{Edges: edges, PageInfo: info},
		}
	}
	service := &scripted{pages: []*apiv2.ListLedgerEntriesResponse{
		page("ab", true, "b"), page("", true, "m"), page("z", false, "z"),
	}}
	var cursors, afters []string
	for edge, err := range LedgerEntries(t.Context(), serve(t, service), LedgerQuery{OldestFirst: true, PageSize: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		cursors = append(cursors, edge.GetCursor())
	}
	for _, request := range service.requests {
		pagination := request.GetPagination()
		afters = append(afters, pagination.GetAfter())
		if pagination.GetFirst() != 2 || pagination.GetNewestFirst() {
			t.Errorf("asked for %v", pagination)
		}
	}
	if got, want := fmt.Sprint(cursors, afters), "[a b z] [ b m]"; got != want {
		t.Errorf("%s instead of %s", got, want)
	}
}

func TestLedgerEntriesThatLeadInACircle(t *testing.T) {
	for _, one := range cases.Lists {
		t.Run(one.Name, func(t *testing.T) {
			cursors := append(one.EndCursors, "end")
			service := &scripted{}
			for n, cursor := range cursors {
				service.pages = append(service.pages, &apiv2.ListLedgerEntriesResponse{
					LedgerEntries: &apiv2.AggregatedLedgerEntriesConnection{
						Edges:    []*LedgerEdge{{Cursor: "x"}},
						PageInfo: &apiv2.PageInfo{HasNextPage: n < len(cursors)-1, EndCursor: cursor},
					},
				})
			}
			var failure error
			entries := 0
			for _, err := range LedgerEntries(t.Context(), serve(t, service), LedgerQuery{After: one.After}) {
				if failure = err; err == nil {
					entries++
				}
			}
			if one.Advances && (failure != nil || entries != len(cursors)) {
				t.Errorf("%v after %d entries", failure, entries)
			}
			if !one.Advances && !errors.Is(failure, ErrListDoesNotAdvance) {
				t.Errorf("it ended with %v", failure)
			}
		})
	}
}

// scriptedTrades is a service of which each call does what the next of the script says.
type scriptedTrades struct {
	apiv2connect.UnimplementedTradingDataServiceHandler
	calls    []tradeCall
	requests []string
}

func (s *scriptedTrades) next(ctx context.Context, request string) (tradeCall, error) {
	s.requests = append(s.requests, request)
	if len(s.calls) == 0 || !strings.HasPrefix(request, s.calls[0].Call) {
		return tradeCall{}, connect.NewError(connect.CodeNotFound, errors.New("out of script"))
	}
	call := s.calls[0]
	s.calls = s.calls[1:]
	info, _ := connect.CallInfoForHandlerContext(ctx)
	info.ResponseHeader().Set("X-Block-Timestamp", call.Time)
	info.ResponseHeader().Set("X-Block-Height", cmp.Or(call.Height, call.Time))
	return call, nil
}

func (c tradeCall) err() error {
	if c.End == 0 {
		return nil
	}
	failure := connect.NewError(connect.Code(c.End), errors.New("as scripted"))
	if detail, err := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: c.Reason}); err == nil {
		failure.AddDetail(detail)
	}
	return failure
}

func (s *scriptedTrades) ListTrades(
	ctx context.Context, request *apiv2.ListTradesRequest,
) (*apiv2.ListTradesResponse, error) {
	pagination := request.GetPagination()
	text := "list"
	if start := request.GetDateRange().GetStartTimestamp(); start != 0 {
		text += fmt.Sprint(" from=", start)
	}
	if pagination.GetAfter() != "" {
		text += " after=" + pagination.GetAfter()
	}
	if !reflect.DeepEqual(request.GetMarketIds(), []string{"m"}) || pagination.GetNewestFirst() {
		text = fmt.Sprint("wrong request ", request)
	}
	call, err := s.next(ctx, text)
	if err := errors.Join(err, call.err()); err != nil {
		return nil, err
	}
	var edges []*apiv2.TradeEdge
	for at, trade := range tradesOf(call.Trades) {
		edges = append(edges, &apiv2.TradeEdge{Node: trade, Cursor: fmt.Sprint(trade.GetId(), at)})
	}
	info := &apiv2.PageInfo{HasNextPage: call.Next != "", EndCursor: call.Next}
	return &apiv2.ListTradesResponse{Trades: &apiv2.TradeConnection{Edges: edges, PageInfo: info}}, nil
}

func (s *scriptedTrades) GetLastTrade(
	ctx context.Context, request *apiv2.GetLastTradeRequest,
) (*apiv2.GetLastTradeResponse, error) {
	text := "last"
	if request.GetMarketId() != "m" {
		text = fmt.Sprint("wrong request ", request)
	}
	call, err := s.next(ctx, text)
	if err := errors.Join(err, call.err()); err != nil {
		return nil, err
	}
	return &apiv2.GetLastTradeResponse{Trade: tradesOf(call.Trades)[0]}, nil
}

func (s *scriptedTrades) ObserveTrades(
	ctx context.Context, _ *apiv2.ObserveTradesRequest, stream *connect.ServerStream[apiv2.ObserveTradesResponse],
) error {
	call, err := s.next(ctx, "stream")
	if err != nil {
		return err
	}
	for _, message := range call.Messages {
		if err := stream.Send(&apiv2.ObserveTradesResponse{Trades: tradesOf(message)}); err != nil {
			return err
		}
	}
	return call.err()
}

func tradesOf(texts []string) []*vega.Trade {
	var all []*vega.Trade
	for _, text := range texts {
		parts := append(strings.Fields(text), "")
		all = append(all, &vega.Trade{Id: parts[0], Timestamp: int64(number(parts[1])), Price: parts[2]})
	}
	return all
}

func TestTrades(t *testing.T) {
	for _, one := range cases.Trades {
		t.Run(one.Name, func(t *testing.T) {
			service := &scriptedTrades{calls: one.Calls}
			var from time.Time
			if one.From != nil {
				from = time.Unix(0, int64(number(*one.From)))
			}
			var seen []string
			options := TradesOptions{OnDisconnect: func(err error, _ time.Duration) { seen = append(seen, messageOf(err)) }}
			for trade, err := range Trades(t.Context(), serve(t, service), "m", from, options) {
				if err != nil {
					seen = append(seen, messageOf(err))
					continue
				}
				seen = append(seen, trade.GetId())
				trade.Price = "of the caller"
			}
			if !reflect.DeepEqual(seen, one.Seen) || !reflect.DeepEqual(service.requests, one.Requests) {
				t.Errorf("asked %q, saw %q", service.requests, seen)
			}
		})
	}
}

func TestReadersShareNoError(t *testing.T) {
	for _, err := range []func() error{func() error { return endOf(nil) }, ofOtherChain} {
		one, other := err(), err()
		if one == other || connect.CodeOf(one) != connect.CodeUnavailable {
			t.Errorf("two readers get %p and %p", one, other)
		}
	}
}

func TestTimesThat64BitsDoNotHold(t *testing.T) {
	for year, expected := range map[int]int64{1500: math.MinInt64, 1970: 0, 2300: math.MaxInt64, 9999: math.MaxInt64} {
		if found := nanoseconds(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)); found != expected {
			t.Errorf("year %d: %d ns", year, found)
		}
	}
}

// candlePages has three pages of candles, of which the second is empty.
type candlePages struct {
	apiv2connect.UnimplementedTradingDataServiceHandler
	requests []string
}

func (s *candlePages) ListCandleData(
	_ context.Context, request *apiv2.ListCandleDataRequest,
) (*apiv2.ListCandleDataResponse, error) {
	asked, pagination := fmt.Sprint(request.GetFromTimestamp(), " ", request.GetToTimestamp()), request.GetPagination()
	page := fmt.Sprint(pagination.GetFirst(), pagination.GetNewestFirst(), pagination.GetAfter())
	s.requests = append(s.requests, fmt.Sprint(request.GetCandleId(), " ", asked, " ", page))
	count := len(s.requests)
	info := &apiv2.PageInfo{HasNextPage: count < 3, EndCursor: fmt.Sprint("c", count)}
	connection := &apiv2.CandleDataConnection{PageInfo: info}
	if count != 2 {
		connection.Edges = []*apiv2.CandleEdge{{Node: &apiv2.Candle{Open: strconv.Itoa(count)}}}
	}
	return &apiv2.ListCandleDataResponse{Candles: connection}, nil
}

func TestCandles(t *testing.T) {
	service := &candlePages{}
	from, until := time.Unix(1, 0), time.Unix(5, 0)
	var seen []string
	options := ListOptions{PageSize: 7}
	for candle, err := range Candles(t.Context(), serve(t, service), "m", FifteenMinutes, from, until, options) {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, candle.GetOpen())
	}
	var want []string
	for _, after := range []string{"", "c1", "c2"} {
		want = append(want, "trades_candle_15_minutes_m 1000000000 5000000000 7 false"+after)
	}
	if !reflect.DeepEqual(seen, []string{"1", "3"}) || !reflect.DeepEqual(service.requests, want) {
		t.Errorf("asked %q, saw %q", service.requests, seen)
	}
}

// balances has accounts with one balance, of one asset. Without decimals it is not announced.
type balances struct {
	apiv2connect.UnimplementedTradingDataServiceHandler
	amount   string
	decimals *string
	assets   int
}

func (s *balances) ListAccounts(context.Context, *apiv2.ListAccountsRequest) (*apiv2.ListAccountsResponse, error) {
	edge := &apiv2.AccountEdge{Node: &apiv2.AccountBalance{Asset: "a", Balance: s.amount}}
	connection := &apiv2.AccountsConnection{Edges: []*apiv2.AccountEdge{edge, edge}}
	return &apiv2.ListAccountsResponse{Accounts: connection}, nil
}

func (s *balances) ListBalanceChanges(
	context.Context, *apiv2.ListBalanceChangesRequest,
) (*apiv2.ListBalanceChangesResponse, error) {
	asset := "a"
	edge := &apiv2.AggregatedBalanceEdge{Node: &apiv2.AggregatedBalance{AssetId: &asset, Balance: s.amount}}
	connection := &apiv2.AggregatedBalanceConnection{Edges: []*apiv2.AggregatedBalanceEdge{edge}}
	return &apiv2.ListBalanceChangesResponse{Balances: connection}, nil
}

func (s *balances) GetAsset(_ context.Context, request *apiv2.GetAssetRequest) (*apiv2.GetAssetResponse, error) {
	s.assets++
	if s.decimals == nil {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("unknown"))
	}
	details := &vega.AssetDetails{Decimals: number(*s.decimals)}
	return &apiv2.GetAssetResponse{Asset: &vega.Asset{Id: request.GetAssetId(), Details: details}}, nil
}

func TestBalances(t *testing.T) {
	for _, one := range cases.Amounts {
		t.Run(one.Name, func(t *testing.T) {
			service := &balances{amount: one.Amount, decimals: one.Decimals}
			client := serve(t, service)
			var found []*big.Rat
			var failures []error
			for account, err := range Accounts(t.Context(), client, AccountQuery{}) {
				found, failures = append(found, account.Balance), append(failures, err)
			}
			if assets := service.assets; one.Error == "" && assets != 1 {
				t.Errorf("%d assets were read", assets)
			}
			for change, err := range BalanceChanges(t.Context(), client, BalanceQuery{}) {
				found, failures = append(found, change.Balance), append(failures, err)
			}
			if one.Error != "" {
				if len(failures) != 2 || !allSay(failures, one.Error) {
					t.Errorf("%v instead of %s", failures, one.Error)
				}
				return
			}
			var want *big.Rat
			if one.Scaled != nil {
				want, _ = new(big.Rat).SetString(*one.Scaled)
			}
			if err := errors.Join(failures...); err != nil || !reflect.DeepEqual(found, []*big.Rat{want, want, want}) {
				t.Errorf("%v, %v", found, err)
			}
			if one.Scaled == nil {
				return
			}
			asset := &vega.Asset{Details: &vega.AssetDetails{Decimals: number(*one.Decimals)}}
			if text, err := ScaledAmount(asset, one.Amount); text != *one.Scaled {
				t.Errorf("%s, %v", text, err)
			}
		})
	}
}

func allSay(failures []error, text string) bool {
	return !slices.ContainsFunc(failures, func(err error) bool { return err == nil || !strings.Contains(err.Error(), text) })
}

func TestDecimals(t *testing.T) {
	for _, one := range cases.Scales {
		t.Run(one.Name, func(t *testing.T) {
			market := &vega.Market{Id: "m", DecimalPlaces: uint64(one.Price.Places), PositionDecimalPlaces: one.Size.Places}
			price, priceErr := ScaledPrice(market, one.Price.Integer)
			size, sizeErr := ScaledSize(market, number(one.Size.Integer))
			if err := errors.Join(priceErr, sizeErr); one.Price.Scaled == nil {
				if err == nil || !strings.HasPrefix(err.Error(), `market "m" has `) {
					t.Errorf("%v does not name the market", err)
				}
			} else if err != nil || price != *one.Price.Scaled || size != *one.Size.Scaled {
				t.Errorf("%s, %s, %v", price, size, err)
			}
		})
	}
}

func TestURLs(t *testing.T) {
	for _, one := range cases.URLs {
		if one.Valid {
			continue // Calls to them would leave this machine; TestLedgerEntries has one that is valid.
		}
		_, err := NewClient(one.URL).GetMarket(t.Context(), &apiv2.GetMarketRequest{})
		want := fmt.Sprintf("invalid_argument: %q is not the URL of a server: it looks like http://localhost:8080", one.URL)
		if err == nil || err.Error() != want {
			t.Errorf("%v instead of %s", err, want)
		}
	}
}

// TestResponsesWithoutEnd reads from a server that never stops writing.
func TestResponsesWithoutEnd(t *testing.T) {
	sent := 0
	for _, one := range []struct {
		contentType string
		status      int
		start       string
	}{
		{"application/proto", 200, ""},
		{"application/json", 500, "{"},
		{"text/html", 200, ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", one.contentType)
			w.WriteHeader(one.status)
			for n, err := w.Write([]byte(one.start)); err == nil; sent += n {
				n, err = w.Write(make([]byte, 1<<20))
			}
		}))
		_, err := NewClient(server.URL).GetMarket(t.Context(), &apiv2.GetMarketRequest{})
		if err == nil {
			t.Errorf("%s has an end", one.contentType)
		}
		server.Close()
	}
	if sent > 4*MessageMaxBytes {
		t.Errorf("%d bytes were read", sent)
	}
}

func TestAMessageThatIsTooLargeEndsTheReader(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/connect+proto")
		for _, err := w.Write([]byte{0, 255, 255, 255, 255}); err == nil; {
			_, err = w.Write(make([]byte, 1<<20))
		}
	}))
	defer server.Close()
	for _, err := range ReadDepth(t.Context(), NewClient(server.URL), DepthOptions{}) {
		if connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Error(err)
		}
	}
}

// proxy forwards TCP to a server. When silence is called, what its first connection carries is lost from then on, and
// neither end is told.
func proxy(t *testing.T, to string) (address string, silence func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var isSilent atomic.Bool
	forward := func(from, to net.Conn, isFirst bool) {
		defer to.Close()
		buffer := make([]byte, 1<<16)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			if !isFirst || !isSilent.Load() {
				_, _ = to.Write(buffer[:n])
			}
		}
	}
	go func() {
		for isFirst := true; ; isFirst = false {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			go forward(client, server, isFirst)
			go forward(server, client, isFirst)
		}
	}()
	return listener.Addr().String(), func() { isSilent.Store(true) }
}

func TestASilentConnectionIsNotUsedAgain(t *testing.T) {
	whole := []*vega.MarketDepthUpdate{update{book{"10", []string{"9 1 1"}, nil}, "0", ""}.message()}
	_, handler := apiv2connect.NewTradingDataServiceHandler(&scripted{scripts: []script{
		{[][]*vega.MarketDepthUpdate{whole}, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
		{[][]*vega.MarketDepthUpdate{whole}, func(context.Context) error {
			return connect.NewError(connect.CodeNotFound, errors.New("as scripted"))
		}},
	}})
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	address, silence := proxy(t, server.Listener.Addr().String())
	trusting := server.Client().Transport.(*http.Transport)
	pinging := &http.Client{Transport: withPings(trusting, 200*time.Millisecond, 200*time.Millisecond)}
	t.Cleanup(pinging.CloseIdleConnections)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	books, breaks, end := 0, 0, connect.Code(0)
	options := DepthOptions{SilenceMax: 2 * time.Second, OnDisconnect: func(error, time.Duration) { breaks++ }}
	for _, err := range ReadDepth(ctx, NewClientWith(pinging, "https://"+address), options) {
		if err != nil {
			end = connect.CodeOf(err)
			continue
		}
		books++
		silence()
	}
	if books != 2 || breaks != 1 || end != connect.CodeNotFound {
		t.Errorf("%d books, %d breaks, then %v", books, breaks, end)
	}
	shared := defaultClient().Transport.(*http.Transport).HTTP2
	if shared == nil || shared.SendPingTimeout+shared.PingTimeout >= SilenceMax {
		t.Errorf("the pings of NewClient are %v", shared)
	}
}

func TestACallWithoutAResponseEnds(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	soon := connect.WithInterceptors(withDeadline(100 * time.Millisecond))
	client := apiv2connect.NewTradingDataServiceClient(server.Client(), server.URL, soon)
	_, err := client.GetMarket(t.Context(), &apiv2.GetMarketRequest{MarketId: "m"})
	if connect.CodeOf(err) != connect.CodeDeadlineExceeded {
		t.Errorf("ended with %v", err)
	}
}

func TestAPriceThatIsNoneBreaksTheStream(t *testing.T) {
	bad := []*vega.MarketDepthUpdate{{
		MarketId: "m", SequenceNumber: 10, Buy: []*vega.PriceLevel{{Price: "1\u202e" + strings.Repeat("x", 100), Volume: 1}},
	}}
	client := serve(t, &scripted{scripts: []script{
		{[][]*vega.MarketDepthUpdate{bad}, func(context.Context) error { return nil }},
		{nil, func(context.Context) error { return connect.NewError(connect.CodeNotFound, errors.New("as scripted")) }},
	}})
	var seen string
	options := DepthOptions{OnDisconnect: func(err error, _ time.Duration) { seen = err.Error() }}
	for range ReadDepth(t.Context(), client, options) {
	}
	if !strings.HasPrefix(seen, `data_loss: market "m" has the price "1\u202e`) || len(seen) > 200 {
		t.Error(seen)
	}
}

func TestAResponseThatBreaksOffIsReadAgain(t *testing.T) {
	bodies := [][]byte{{0, 0, 0, 0, 9, 1}, {0, 0, 0}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if len(bodies) == 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/connect+proto")
		_, _ = w.Write(bodies[0])
		bodies = bodies[1:]
	}))
	defer server.Close()
	breaks := 0
	options := DepthOptions{OnDisconnect: func(error, time.Duration) { breaks++ }}
	for range ReadDepth(t.Context(), NewClient(server.URL), options) {
	}
	if breaks != 2 {
		t.Errorf("%d attempts after a break", breaks)
	}
}
