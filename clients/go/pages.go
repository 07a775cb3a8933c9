package marketd

import (
	"errors"
	"fmt"
	"iter"

	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
)

// ErrListDoesNotAdvance says that the cursors of a list lead in a circle: the server is wrong.
var ErrListDoesNotAdvance = errors.New("the list does not advance")

// ListOptions say how a list is read.
type ListOptions struct {
	// PageSize is the number of rows per request, 1 to 5000. 0: 1000.
	PageSize int32
}

// paged is the response to a request for a page, whatever it lists.
type paged[E any] interface {
	GetEdges() []E
	GetPageInfo() *apiv2.PageInfo
}

// pages yields the pages of a list until its end, each read when it is needed, from behind a cursor on. It ends after
// the first error: ErrListDoesNotAdvance if the server's cursors lead in a circle.
func pages[E any, P paged[E]](
	pagination *apiv2.Pagination, read func(*apiv2.Pagination) (P, error),
) iter.Seq2[[]E, error] {
	return func(yield func([]E, error) bool) {
		check := newCursorCheck(pagination.GetAfter())
		for {
			page, err := read(pagination)
			if err != nil {
				yield(nil, err)
				return
			}
			// A page can be short, or even empty, and not the last.
			isLast, after := !page.GetPageInfo().GetHasNextPage(), page.GetPageInfo().GetEndCursor()
			if !isLast {
				if err := check.advance(after); err != nil {
					yield(nil, err)
					return
				}
			}
			if !yield(page.GetEdges(), nil) || isLast {
				return
			}
			pagination.After = &after
		}
	}
}

// nodes yields what a list holds, and ends after the first error.
func nodes[N any, E interface{ GetNode() N }, P paged[E]](
	pagination *apiv2.Pagination, read func(*apiv2.Pagination) (P, error),
) iter.Seq2[N, error] {
	return func(yield func(N, error) bool) {
		var none N
		for edges, err := range pages[E](pagination, read) {
			if err != nil {
				yield(none, err)
				return
			}
			for _, edge := range edges {
				if !yield(edge.GetNode(), nil) {
					return
				}
			}
		}
	}
}

// pagination of the first page. The order is the method's own, or by newestFirst.
func (o ListOptions) pagination(newestFirst *bool) *apiv2.Pagination {
	pagination := &apiv2.Pagination{NewestFirst: newestFirst}
	if o.PageSize != 0 {
		pagination.First = &o.PageSize
	}
	return pagination
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
