package marketd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"connectrpc.com/connect"
)

// SilenceMax is how long a stream may be without a message before it is given up; a server sends one every 15 seconds.
const SilenceMax = 45 * time.Second

// source returns the next message of a stream; after the last, an error that is errEnd.
type source[M any] func() (M, error)

type opener[M any] func(context.Context) (source[M], error)

var (
	errEnd     = errors.New("the stream ended")
	errStopped = errors.New("the caller has stopped")
)

// endOf is the error of a stream that ended. Each reader has its own: reading the metadata of one writes to it.
func endOf(err error) error {
	if err == nil {
		return connect.NewError(connect.CodeUnavailable, errEnd)
	}
	return err
}

// withRetries yields what attempts yield, and waits between them, for as long as an attempt fails and goesOnAfter its
// error. An attempt ends when its yield returns an error. Each onMessage ends a row of failures.
func withRetries[T any](
	ctx context.Context, yield func(T, error) bool,
	onDisconnect func(error, time.Duration), goesOnAfter func(error) bool,
	attempt func(yield func(T) error, onMessage func()) error,
) {
	stopped := false
	yieldOne := func(item T) error {
		if stopped = !yield(item, nil); stopped {
			return errStopped
		}
		return nil
	}
	for failures := 1; ; failures++ {
		err := attempt(yieldOne, func() { failures = 1 })
		if stopped || err == nil || ctx.Err() != nil {
			return
		}
		if !goesOnAfter(err) {
			var none T
			yield(none, err)
			return
		}
		wait := RetryWait(err, failures, rand.Float64())
		if onDisconnect != nil {
			onDisconnect(err, wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// watched gives the messages of one stream to each, until that fails, the stream does, or it is silent for too long. It
// does not return nil.
func watched[M any](
	ctx context.Context, silenceMax time.Duration, open opener[M], each func(context.Context, M) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silenceMax = cmp.Or(silenceMax, SilenceMax)
	timer := time.AfterFunc(silenceMax, cancel)
	next, err := open(ctx)
	for err == nil {
		var message M
		// Only the time that we wait counts, not the time that the caller takes over a message.
		timer.Reset(silenceMax)
		if message, err = next(); err != nil {
			break
		}
		timer.Stop()
		if err := each(ctx, message); err != nil {
			return err
		}
	}
	if !timer.Stop() {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("no message for %v", silenceMax))
	}
	return err
}
