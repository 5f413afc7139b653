package main

import (
	"context"
	"log/slog"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/facade"
)

// good is a back end that is there.
type good struct{}

func (good) Initialise(context.Context) error { return nil }

func goodBackend() containersetup.Backend {
	return containersetup.Backend{
		Initialiser: good{},
		NewBroker: func(context.Context, facade.ContainerManagerConfig) (containersetup.Broker, error) {
			return nil, nil
		},
	}
}

func TestBackendsThatCannotBeHadSayWhy(t *testing.T) {
	from := []candidate{
		{"good", func(context.Context) (containersetup.Backend, error) { return goodBackend(), nil }},
		{"bad", func(context.Context) (containersetup.Backend, error) {
			return containersetup.Backend{}, errors.New("its daemon is older than the hills")
		}},
		{"slow", func(ctx context.Context) (containersetup.Backend, error) {
			// A probe that hangs is cut off.
			if _, ok := ctx.Deadline(); !ok {
				return goodBackend(), nil
			}
			return containersetup.Backend{}, context.DeadlineExceeded
		}},
		{"unwanted", func(context.Context) (containersetup.Backend, error) {
			t.Error("asked for what the machine is not to have")
			return containersetup.Backend{}, nil
		}},
	}
	types := []containersetup.ContainerType{"good", "bad", "slow", "lxd"}
	backends := findBackends(t.Context(), types, from, slog.New(slog.DiscardHandler))
	if len(backends) != len(types) {
		t.Errorf("got %v", backends)
	}
	for typ, want := range map[containersetup.ContainerType]bool{"good": true, "bad": false, "unwanted": false} {
		if has(backends, typ) != want {
			t.Errorf("%s: want it there: %v", typ, want)
		}
	}
	for typ, want := range map[containersetup.ContainerType]string{
		"bad":  "its daemon is older than the hills",
		"slow": "context deadline exceeded",
		"lxd":  "no back end for lxd in this agent",
	} {
		backend := backends[typ]
		if err := backend.Validate(); err != nil {
			t.Error(err)
		}
		// NotSupported is what has set-up give up at once.
		if err := backend.Initialiser.Initialise(t.Context()); !errors.Is(err, errors.NotSupported) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", typ, err, want)
		}
		if b, err := backend.NewBroker(t.Context(), nil); b != nil || !errors.Is(err, errors.NotSupported) {
			t.Errorf("%s: got %v, %v", typ, b, err)
		}
	}
	if err := backends["good"].Initialiser.Initialise(t.Context()); err != nil {
		t.Error(err)
	}
}
