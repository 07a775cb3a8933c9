package marketd

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
)

const (
	// FirstWait is the wait after a first failure. It doubles with each further failure in a row, up to WaitMax.
	FirstWait = 250 * time.Millisecond
	// WaitMax is the longest wait of our own choice.
	WaitMax = 30 * time.Second
	// AskedWaitMax is the longest wait that a server can ask for.
	AskedWaitMax = 10 * time.Minute
)

var permanentCodes = []connect.Code{
	connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeAlreadyExists, connect.CodePermissionDenied,
	connect.CodeFailedPrecondition, connect.CodeOutOfRange, connect.CodeUnimplemented, connect.CodeUnauthenticated,
}

// IsTransient tells whether the same call can succeed later. It is false for mistakes of the caller, such as an unknown
// market, and for messages that are too large.
func IsTransient(err error) bool {
	code := connect.CodeOf(err)
	if code == connect.CodeResourceExhausted && strings.Contains(err.Error(), tooLarge) {
		return false
	}
	if !slices.Contains(permanentCodes, code) {
		return true
	}
	var failure *connect.Error
	return errors.As(err, &failure) && strings.HasPrefix(failure.Message(), protocolError)
}

// tooLarge is what Connect says of a message that is too large.
const tooLarge = "larger than configured max"

// protocolError begins Connect's own errors. It gives a response that breaks off the code of a mistake of the caller.
const protocolError = "protocol error: "

// RetryWait tells how long to wait after a failure: what the server asked for (RetryInfo, or Retry-After in seconds),
// and on top of it an exponential back-off, of which a random half is left out so that clients do not return all at
// once. Failures counts failures in a row, this one included. Jitter is a random number from 0 to 1.
func RetryWait(err error, failures int, jitter float64) time.Duration {
	backOff := math.Min(float64(WaitMax), float64(FirstWait)*math.Pow(2, float64(failures-1)))
	return min(AskedWaitMax, askedWait(err)) + time.Duration(backOff*(0.5+jitter/2))
}

// isOfOtherChain tells whether the server's database holds another chain now, so that nothing that was read goes on
// there.
func isOfOtherChain(err error) bool {
	info, ok := detailOf[*errdetails.ErrorInfo](err)
	return ok && info.GetReason() == chainChanged
}

const chainChanged = "CHAIN_CHANGED"

var errOtherChain = errors.New("the trades that were read are not in the database any more: it holds another chain")

// ofOtherChain is the error of a server that lacks what was read before.
func ofOtherChain() error {
	failure := connect.NewError(connect.CodeUnavailable, errOtherChain)
	if detail, err := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: chainChanged}); err == nil {
		failure.AddDetail(detail)
	}
	return failure
}

// detailOf is the error's detail of a type, if it has one.
func detailOf[T any](err error) (T, bool) {
	var none T
	var failure *connect.Error
	if !errors.As(err, &failure) {
		return none, false
	}
	for _, detail := range failure.Details() {
		if value, err := detail.Value(); err == nil {
			if info, ok := value.(T); ok {
				return info, true
			}
		}
	}
	return none, false
}

func askedWait(err error) time.Duration {
	var failure *connect.Error
	if !errors.As(err, &failure) {
		return 0
	}
	if info, ok := detailOf[*errdetails.RetryInfo](err); ok {
		return max(0, info.GetRetryDelay().AsDuration())
	}
	seconds, err := strconv.ParseUint(failure.Meta().Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
