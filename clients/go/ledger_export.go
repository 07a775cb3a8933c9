package marketd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/big"
	"net/http"
	"strconv"

	apiv2 "marketd.example/marketd/gen/datanode/api/v2"
)

// ErrExportDiffers says that what arrived is not what the server says it sent, or that it did not say so. What was
// written is worth nothing then.
var ErrExportDiffers = errors.New("the export arrived not as sent")

// ExportSummary is what a file holds, as the server said and as was counted here.
type ExportSummary struct {
	// Rows counts ledger entries, the header line not included.
	Rows int64
	// SumOfEffects tells by how much the party's holdings of the asset changed: an integer scaled by the asset's decimals.
	SumOfEffects *big.Int
	// SHA256 of all bytes of the file, in lower-case hexadecimal.
	SHA256 string
}

// ExportLedger exports the ledger entries of a party and an asset as CSV to w, and returns what the file holds. It
// returns ErrExportDiffers unless rows, sum of effects and SHA-256 are those that the server states.
func ExportLedger(
	ctx context.Context, client Client, request *apiv2.ExportLedgerEntriesRequest, w io.Writer,
) (ExportSummary, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.ExportLedgerEntries(ctx, request)
	if err != nil {
		return ExportSummary{}, err
	}
	check := newExportCheck()
	for stream.Receive() {
		if err := check.update(stream.Msg().GetData()); err != nil {
			return ExportSummary{}, err
		}
		if _, err := w.Write(stream.Msg().GetData()); err != nil {
			return ExportSummary{}, err
		}
	}
	if err := stream.Err(); err != nil {
		return ExportSummary{}, err
	}
	return check.finish(stream.ResponseTrailer())
}

// rowMaxBytes is the length of the longest row that is read; one with ids of 128 characters has less than 2 KiB.
const rowMaxBytes = 64 << 10

// exportCheck counts and hashes a CSV file as it arrives, and compares it with the server's summary.
type exportCheck struct {
	hash         hash.Hash
	rest         []byte
	rows         int64
	sumOfEffects *big.Int
}

func newExportCheck() *exportCheck {
	// -1 for the header.
	return &exportCheck{hash: sha256.New(), rows: -1, sumOfEffects: new(big.Int)}
}

// update takes the next bytes of the file.
func (c *exportCheck) update(csv []byte) error {
	c.hash.Write(csv)
	c.rest = append(c.rest, csv...)
	for {
		line, rest, found := bytes.Cut(c.rest, []byte("\r\n"))
		if !found && len(c.rest) > rowMaxBytes {
			return fmt.Errorf("%w: a row has more than %d bytes", ErrExportDiffers, rowMaxBytes)
		}
		if !found {
			return nil
		}
		c.rest = rest
		c.rows++
		if c.rows == 0 {
			continue
		}
		// The first fields, time, quantity and effect, are never quoted; no field holds a line end.
		fields := bytes.SplitN(line, []byte(","), 4)
		effect, ok := new(big.Int), false
		if len(fields) > 2 {
			effect, ok = effect.SetString(string(fields[2]), 10)
		}
		if !ok {
			text := bytes.Join(fields[min(2, len(fields)):min(3, len(fields))], nil)
			return fmt.Errorf("%w: a row has the effect %s", ErrExportDiffers, quoted(string(text)))
		}
		c.sumOfEffects.Add(c.sumOfEffects, effect)
	}
}

// finish compares with what the server stated, in the trailers of the response.
func (c *exportCheck) finish(stated http.Header) (ExportSummary, error) {
	counted := ExportSummary{c.rows, c.sumOfEffects, hex.EncodeToString(c.hash.Sum(nil))}
	for _, fact := range []struct{ label, name, value string }{
		{"rows", "Export-Rows", strconv.FormatInt(counted.Rows, 10)},
		{"sum of effects", "Export-Sum-Of-Effects", counted.SumOfEffects.String()},
		{"SHA-256", "Export-Sha256", counted.SHA256},
	} {
		switch said := stated.Get(fact.name); said {
		case fact.value:
		case "":
			return ExportSummary{}, fmt.Errorf("%w: it came without its summary", ErrExportDiffers)
		default:
			return ExportSummary{}, fmt.Errorf(
				"%w: %s %s instead of %s", ErrExportDiffers, fact.label, fact.value, quoted(said),
			)
		}
	}
	return counted, nil
}
