package marketd

import (
	"fmt"
	"strconv"
	"strings"

	"marketd.example/marketd/gen/vega"
)

// DecimalPlacesMax is the most decimal places that a market or an asset can have, before or after the point: numbers have
// at most 78 digits.
const DecimalPlacesMax = 78

// Scale says how a market's numbers are scaled: a vega.Market, a historyv1.MarketHistoryStatus, or a book of the past.
type Scale interface {
	GetDecimalPlaces() uint64
	GetPositionDecimalPlaces() int64
}

// ScaledPrice returns a price of a market as a decimal number: "12345" with 2 decimal places is 123.45. Decimal places
// that cannot be right are an error that names the market.
func ScaledPrice(market Scale, price string) (string, error) {
	return scaledUp("market", idOf(market), price, market.GetDecimalPlaces())
}

// ScaledSize returns a volume or size of a market as a decimal number. Negative decimal places append zeros. Decimal
// places that cannot be right are an error that names the market.
func ScaledSize(market Scale, size uint64) (string, error) {
	places := market.GetPositionDecimalPlaces()
	return scaled("market", idOf(market), strconv.FormatUint(size, 10), places, strconv.FormatInt(places, 10))
}

// ScaledAmount returns an amount of an asset, such as a balance, as a decimal number. Decimals that cannot be right are
// an error that names the asset.
func ScaledAmount(asset *vega.Asset, amount string) (string, error) {
	integer, isNegative := strings.CutPrefix(amount, "-")
	text, err := scaledUp("asset", asset.GetId(), integer, asset.GetDetails().GetDecimals())
	if isNegative && err == nil {
		text = "-" + text
	}
	return text, err
}

func scaledUp(what, id, integer string, places uint64) (string, error) {
	return scaled(what, id, integer, int64(min(places, DecimalPlacesMax+1)), strconv.FormatUint(places, 10))
}

func scaled(what, id, integer string, places int64, stated string) (string, error) {
	switch {
	case places > DecimalPlacesMax || places < -DecimalPlacesMax:
		return "", fmt.Errorf(
			"%s %s has %s decimal places; at most %d can be right", what, quoted(id), stated, DecimalPlacesMax,
		)
	case places <= 0 && integer == "0":
		return integer, nil
	case places <= 0:
		return integer + strings.Repeat("0", int(-places)), nil
	}
	digits := strings.Repeat("0", max(0, int(places)+1-len(integer))) + integer
	point := len(digits) - int(places)
	return digits[:point] + "." + digits[point:], nil
}

func idOf(market Scale) string {
	switch named := market.(type) {
	case interface{ GetId() string }:
		return named.GetId()
	case interface{ GetMarketId() string }:
		return named.GetMarketId()
	}
	return ""
}

// quotedMax is the number of bytes of a text of others that an error quotes.
const quotedMax = 80

// quoted returns external text in quotes, for an error's message: printable, and cut.
func quoted(text string) string {
	if len(text) > quotedMax {
		text = text[:quotedMax] + "..."
	}
	return strconv.QuoteToASCII(text)
}
