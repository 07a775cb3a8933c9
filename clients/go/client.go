// Package marketd is a client of marketd: order books that stay right, ledger paging and verified exports.
package marketd

import (
	"net/http"

	"marketd.example/marketd/gen/datanode/api/v2/apiv2connect"
)

// Client has a method for each of the eight operations. It is safe for concurrent use.
type Client = apiv2connect.TradingDataServiceClient

// NewClient returns a client of the server at a URL, over the Connect protocol. It opens no connection yet. For gRPC,
// or for another HTTP client, use apiv2connect.NewTradingDataServiceClient.
func NewClient(baseURL string) Client {
	return apiv2connect.NewTradingDataServiceClient(http.DefaultClient, baseURL)
}
