package marketd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
	"marketd.example/marketd/gen/datanode/api/v2/apiv2connect"
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

func serve(t *testing.T, service *scripted) Client {
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
