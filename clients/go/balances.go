package marketd

import (
	"context"
	"fmt"
	"iter"
	"math/big"
	"strings"
	"time"

	"connectrpc.com/connect"
	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
	"marketd.example/marketd/gen/vega"
)

// AccountQuery says which accounts. The zero value is every one, with its newest balance.
type AccountQuery struct {
	ListOptions
	// Filter selects accounts, with at most one party; nil: every account that a ledger entry names.
	Filter *apiv2.AccountFilter
	// AsOf is the time of the balances. Zero: the newest, which may change from page to page.
	AsOf time.Time
}

// BalanceQuery says which changes of balances, and in which order. The zero value is every one, newest first.
type BalanceQuery struct {
	ListOptions
	// Filter is as that of AccountQuery.
	Filter *apiv2.AccountFilter
	// DateRange is in nanoseconds: start inclusive, end exclusive. Nil: all times.
	DateRange *apiv2.DateRange
	// OldestFirst turns the order of the list around.
	OldestFirst bool
}

// AccountAmount is an account and what it holds.
type AccountAmount struct {
	// Account has the balance as an integer.
	Account *apiv2.AccountBalance
	// Asset is nil if the network has not announced it.
	Asset *vega.Asset
	// Balance is exact, with the asset's decimals; nil without the asset. ScaledAmount makes text of the integer.
	Balance *big.Rat
}

// BalanceChange is what an account held at the end of a block.
type BalanceChange struct {
	// Change has the balance as an integer.
	Change *apiv2.AggregatedBalance
	// Asset and Balance are as those of AccountAmount.
	Asset   *vega.Asset
	Balance *big.Rat
}

// Accounts yields every account that the query selects, with its balance as a decimal number, a page at a time. It
// reads each asset once, and ends after the first error. CodeFailedPrecondition with the reason LEDGER_NOT_RETAINED says
// that a balance is not known any more.
func Accounts(ctx context.Context, client Client, query AccountQuery) iter.Seq2[AccountAmount, error] {
	return func(yield func(AccountAmount, error) bool) {
		request := &apiv2.ListAccountsRequest{Filter: query.Filter}
		if !query.AsOf.IsZero() {
			asOf := nanoseconds(query.AsOf)
			request.AsOf = &asOf
		}
		read := func(pagination *apiv2.Pagination) (*apiv2.AccountsConnection, error) {
			request.Pagination = pagination
			response, err := client.ListAccounts(ctx, request)
			return response.GetAccounts(), err
		}
		amounts := amounts{}
		for account, err := range nodes(query.pagination(nil), read) {
			found := AccountAmount{Account: account}
			if err == nil {
				found.Asset, found.Balance, err = amounts.of(ctx, client, account.GetAsset(), account.GetBalance())
			}
			if err != nil {
				yield(AccountAmount{}, err)
				return
			}
			if !yield(found, nil) {
				return
			}
		}
	}
}

// BalanceChanges yields every change of a balance that the query selects, as a decimal number, a page at a time. It
// reads each asset once, and ends as Accounts does.
func BalanceChanges(ctx context.Context, client Client, query BalanceQuery) iter.Seq2[BalanceChange, error] {
	return func(yield func(BalanceChange, error) bool) {
		newestFirst := !query.OldestFirst
		read := func(pagination *apiv2.Pagination) (*apiv2.AggregatedBalanceConnection, error) {
			response, err := client.ListBalanceChanges(ctx, &apiv2.ListBalanceChangesRequest{
				Filter: query.Filter, DateRange: query.DateRange, Pagination: pagination,
			})
			return response.GetBalances(), err
		}
		amounts := amounts{}
		for change, err := range nodes(query.pagination(&newestFirst), read) {
			found := BalanceChange{Change: change}
			if err == nil {
				found.Asset, found.Balance, err = amounts.of(ctx, client, change.GetAssetId(), change.GetBalance())
			}
			if err != nil {
				yield(BalanceChange{}, err)
				return
			}
			if !yield(found, nil) {
				return
			}
		}
	}
}

// amounts are of the assets of a network by their ids, each of which is read once; nil: it is not announced.
type amounts map[string]*vega.Asset

func (a amounts) of(ctx context.Context, client Client, assetID, balance string) (*vega.Asset, *big.Rat, error) {
	digits := strings.TrimPrefix(balance, "-")
	if digits == "" || len(digits) > priceDigitsMax || strings.Trim(digits, "0123456789") != "" {
		return nil, nil, connect.NewError(
			connect.CodeDataLoss, fmt.Errorf("asset %s has the balance %s", quoted(assetID), quoted(balance)),
		)
	}
	asset, isKnown := a[assetID]
	if !isKnown {
		response, err := client.GetAsset(ctx, &apiv2.GetAssetRequest{AssetId: assetID})
		if err != nil && connect.CodeOf(err) != connect.CodeNotFound {
			return nil, nil, err
		}
		asset = response.GetAsset()
		a[assetID] = asset
	}
	if asset == nil {
		return nil, nil, nil
	}
	text, err := ScaledAmount(asset, balance)
	if err != nil {
		return nil, nil, err
	}
	number, _ := new(big.Rat).SetString(text)
	return asset, number, nil
}
