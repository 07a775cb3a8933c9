package marketd

import (
	"context"
	"iter"

	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
)

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
		pagination := ListOptions{query.PageSize}.pagination(&newestFirst)
		if query.After != "" {
			pagination.After = &query.After
		}
		read := func(pagination *apiv2.Pagination) (*apiv2.AggregatedLedgerEntriesConnection, error) {
			response, err := client.ListLedgerEntries(ctx, &apiv2.ListLedgerEntriesRequest{
				Filter: query.Filter, DateRange: query.DateRange, Pagination: pagination,
			})
			return response.GetLedgerEntries(), err
		}
		for edges, err := range pages(pagination, read) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, edge := range edges {
				if !yield(edge, nil) {
					return
				}
			}
		}
	}
}
