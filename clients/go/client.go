// Package marketd is a client of marketd: order books that stay right, ledger paging and verified exports.
package marketd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"marketd.example/marketd/gen/datanode/api/v2/apiv2connect"
	"marketd.example/marketd/gen/marketd/history/v1/historyv1connect"
)

// MessageMaxBytes is the size of the largest message that is read, and of the largest response that is not a stream. The
// whole book of a million levels a side has 42 MB.
const MessageMaxBytes = 64 << 20

// ResponseMax is how long a call that is no stream waits for its response, unless its context has a deadline. Then it
// fails with CodeDeadlineExceeded.
const ResponseMax = 35 * time.Second

func withDeadline(responseMax time.Duration) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			if _, has := ctx.Deadline(); !has {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, responseMax)
				defer cancel()
			}
			return next(ctx, request)
		}
	}
}

// Client has a method for each operation of both services. It is safe for concurrent use.
type Client interface {
	apiv2connect.TradingDataServiceClient
	historyv1connect.MarketHistoryServiceClient
}

// NewClient returns a client of the server at a URL, such as http://localhost:8080, over the Connect protocol. It opens
// no connection yet. If it is not a URL of http or https, each call fails with CodeInvalidArgument.
func NewClient(baseURL string) Client {
	var http connect.HTTPClient = boundedClient{}
	if parsed, err := url.Parse(baseURL); err != nil || !isServer(parsed) {
		http, baseURL = refusingClient{baseURL}, "http://localhost"
	}
	return NewClientWith(http, baseURL, connect.WithReadMaxBytes(MessageMaxBytes))
}

// NewClientWith returns a client over another HTTP client, or another protocol, such as connect.WithGRPC().
func NewClientWith(http connect.HTTPClient, baseURL string, options ...connect.ClientOption) Client {
	options = append([]connect.ClientOption{connect.WithInterceptors(withDeadline(ResponseMax))}, options...)
	return struct {
		apiv2connect.TradingDataServiceClient
		historyv1connect.MarketHistoryServiceClient
	}{
		apiv2connect.NewTradingDataServiceClient(http, baseURL, options...),
		historyv1connect.NewMarketHistoryServiceClient(http, baseURL, options...),
	}
}

func isServer(parsed *url.URL) bool {
	return (parsed.Scheme == "http" || parsed.Scheme == "https") && parsed.Hostname() != ""
}

// refusingClient says what is wrong with a URL.
type refusingClient struct{ baseURL string }

func (c refusingClient) Do(*http.Request) (*http.Response, error) {
	return nil, connect.NewError(connect.CodeInvalidArgument,
		fmt.Errorf("%q is not the URL of a server: it looks like http://localhost:8080", c.baseURL))
}

const (
	// pingAfter is the silence after which a connection of HTTP/2 is asked whether the server is still there, and pingMax
	// how long that may take. Each further call would use a connection whose other end is gone without a word.
	pingAfter = 20 * time.Second
	pingMax   = 10 * time.Second
)

// defaultClient is http.DefaultClient as the program has set it before its first call, with pings. It has no pings if
// the program replaced the transport by one that is not net/http's.
var defaultClient = sync.OnceValue(func() *http.Client {
	client := *http.DefaultClient
	if transport, ok := cmp.Or(client.Transport, http.DefaultTransport).(*http.Transport); ok {
		client.Transport = withPings(transport, pingAfter, pingMax)
	}
	return &client
})

func withPings(transport *http.Transport, after, responseMax time.Duration) *http.Transport {
	transport = transport.Clone()
	if transport.HTTP2 == nil {
		transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: after, PingTimeout: responseMax}
	}
	return transport
}

// boundedClient is an HTTP client whose responses end with an error after MessageMaxBytes, or in streams when a
// message is announced that is larger. Connect alone would read such a message to its end, which may never come.
type boundedClient struct{}

func (boundedClient) Do(request *http.Request) (*http.Response, error) {
	response, err := defaultClient().Do(request)
	if err == nil {
		isStream := strings.HasPrefix(response.Header.Get("Content-Type"), "application/connect+")
		response.Body = &boundedBody{ReadCloser: response.Body, isStream: isStream}
	}
	return response, err
}

// prefixBytes is the number of bytes before each message of a stream: flags, then the length, big-endian.
const prefixBytes = 5

type boundedBody struct {
	io.ReadCloser
	isStream bool
	// Of the response; in streams those of the message's prefix.
	bytes int
	// Of the stream's message that are still to come.
	left int64
}

func (b *boundedBody) Read(buffer []byte) (int, error) {
	n, err := b.ReadCloser.Read(buffer)
	if b.isTooLarge(buffer[:n]) {
		return 0, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("message is %s %d", tooLarge, MessageMaxBytes))
	}
	return n, err
}

func (b *boundedBody) isTooLarge(read []byte) bool {
	if !b.isStream {
		b.bytes += len(read)
		return b.bytes > MessageMaxBytes
	}
	for len(read) > 0 {
		if b.bytes == prefixBytes {
			taken := min(b.left, int64(len(read)))
			read, b.left = read[taken:], b.left-taken
		} else {
			if b.bytes > 0 {
				b.left = b.left<<8 | int64(read[0])
			}
			read, b.bytes = read[1:], b.bytes+1
			if b.bytes == prefixBytes && b.left > MessageMaxBytes {
				return true
			}
		}
		if b.bytes == prefixBytes && b.left == 0 {
			b.bytes = 0
		}
	}
	return false
}
