package deadline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/internal/deadline"
)

const boom = errors.ConstError("boom")

func TestCall(t *testing.T) {
	untilEnd := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	tests := []struct {
		about string
		f     func(context.Context) error
		kill  time.Duration // when the caller is cancelled
		want  error
		took  time.Duration
	}{
		{"in time", func(context.Context) error { return nil }, time.Hour, nil, 0},
		{"fails in time", func(context.Context) error { return boom }, time.Hour, boom, 0},
		{"blocks", untilEnd, time.Hour, errors.Timeout, time.Minute},
		{"blocks and gives the cause", func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, time.Hour, errors.Timeout, time.Minute},
		{"is cancelled", untilEnd, time.Second, context.Canceled, time.Second},
		{"fails late in its own way", func(ctx context.Context) error {
			<-ctx.Done()
			return boom
		}, time.Hour, boom, time.Minute},
		{"succeeds late", func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}, time.Hour, nil, time.Minute},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				stop := time.AfterFunc(test.kill, cancel)
				defer cancel()
				defer stop.Stop()
				began := time.Now()
				err := deadline.Call(ctx, clock.WallClock, time.Minute, test.f)
				if !errors.Is(err, test.want) {
					t.Errorf("Call() = %v, want %v", err, test.want)
				}
				if test.want == errors.Timeout && errors.Is(err, context.Canceled) {
					t.Error("a time-out looks like a cancellation")
				}
				if took := time.Since(began); took != test.took {
					t.Errorf("it took %v, want %v", took, test.took)
				}
			})
		})
	}
}
