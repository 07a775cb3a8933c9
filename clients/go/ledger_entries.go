package marketd

import (
	"context"
	"errors"
	"fmt"
	"iter"

	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
)

// ErrListDoesNotAdvance says that the cursors of a list lead in a circle: the server is wrong.
var ErrListDoesNotAdvance = errors.New("the list does not advance")

// LedgerEdge holds a ledger entry, Node, and its Cursor: given as LedgerQuery.After, the list goes on behind it.
type LedgerEdge = apiv2.AggregatedLedgerEntriesEdge

// LedgerQuery says which ledger entries, and in which order. The zero value is every entry, newest first.
type LedgerQuery struct {
	// Filter selects entries; nil: every entry.
	Filter *apiv2.LedgerEntryFilter
	// DateRange is in nanoseconds: start inclusive, end exclusive. Nil: all times.
	DateRange *apiv2.DateRange
	// OldestFirst turns the order of the list around.
	OldestFirst bool
	// PageSize is the number of entries per request, 1 to 5000. 0: 1000.
	PageSize int32
	// After is a cursor: only entries after it, in the order of the list.
	After string
}

// LedgerEntries yields every entry that the query selects, each exactly once, a page at a time; also while new entries
// arrive. No page is fetched before it is needed. It ends after the first error: ErrListDoesNotAdvance if the server's
// cursors lead in a circle.
func LedgerEntries(ctx context.Context, client Client, query LedgerQuery) iter.Seq2[*LedgerEdge, error] {
	return func(yield func(*LedgerEdge, error) bool) {
		newestFirst := !query.OldestFirst
		pagination := &apiv2.Pagination{NewestFirst: &newestFirst}
		if query.PageSize != 0 {
			pagination.First = &query.PageSize
		}
		if query.After != "" {
			pagination.After = &query.After
		}
		request := &apiv2.ListLedgerEntriesRequest{
			Filter: query.Filter, DateRange: query.DateRange, Pagination: pagination,
		}
		check := newCursorCheck(query.After)
		for {
			response, err := client.ListLedgerEntries(ctx, request)
			if err != nil {
				yield(nil, err)
				return
			}
			page := response.GetLedgerEntries().GetPageInfo()
			if page.GetHasNextPage() {
				if err := check.advance(page.GetEndCursor()); err != nil {
					yield(nil, err)
					return
				}
			}
			for _, edge := range response.GetLedgerEntries().GetEdges() {
				if !yield(edge, nil) {
					return
				}
			}
			// A page can be short, or even empty, and not the last.
			if !page.GetHasNextPage() {
				return
			}
			after := page.GetEndCursor()
			pagination.After = &after
		}
	}
}

// cursorCheck finds out that a list leads in a circle. It keeps one cursor (Brent's algorithm): the first, second,
// fourth, eighth … of the list. A circle comes back to one of them.
type cursorCheck struct {
	kept            string
	steps, stepsMax int
}

func newCursorCheck(start string) *cursorCheck { return &cursorCheck{kept: start, stepsMax: 1} }

// advance takes the cursor of the next page.
func (c *cursorCheck) advance(cursor string) error {
	if cursor == "" || cursor == c.kept {
		return fmt.Errorf("%w: it leads back to the cursor %s", ErrListDoesNotAdvance, quoted(cursor))
	}
	c.steps++
	if c.steps == c.stepsMax {
		c.kept, c.steps, c.stepsMax = cursor, 0, 2*c.stepsMax
	}
	return nil
}
