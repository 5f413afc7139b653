package enginevalue_test

import (
	"fmt"
	"testing"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/enginevalue"
)

type greeting string

func (g greeting) String() string { return string(g) }

func ExampleManifold() {
	manifold := enginevalue.Manifold[fmt.Stringer](greeting("hello"))
	w, err := manifold.Start(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var s fmt.Stringer
	err = manifold.Output(w, &s)
	fmt.Println(s, err)
	w.Kill()
	fmt.Println(w.Wait())
	// Output:
	// hello <nil>
	// <nil>
}

func TestOutputOfAnotherTypeIsRefused(t *testing.T) {
	manifold := enginevalue.Manifold[clock.Clock](clock.WallClock)
	w, err := manifold.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		w.Kill()
		if err := w.Wait(); err != nil {
			t.Error(err)
		}
	}()
	var wrong string
	for _, out := range []any{&wrong, wrong, nil, clock.WallClock} {
		if err := manifold.Output(w, out); !errors.Is(err, errors.NotValid) {
			t.Errorf("Output(%T) = %v, want NotValid", out, err)
		}
	}
	var c clock.Clock
	if err := manifold.Output(w, &c); err != nil || c != clock.WallClock {
		t.Errorf("Output(*clock.Clock) = %v, gave %v", err, c)
	}
}
