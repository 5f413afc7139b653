package kubetest

import (
	"fmt"
	"testing"
	"time"
)

// Patience is how long is waited for anything: long, because other tests run at the
// same time. Nothing that works takes that long.
const Patience = 90 * time.Second

// Eventually calls check until it returns nil. It fails the test, with what check
// returned last, when that takes more than [Patience].
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	if err := poll(Patience, check); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// poll calls check until it returns nil, first often and then less so.
func poll(patience time.Duration, check func() error) error {
	began := time.Now()
	pause := 10 * time.Millisecond
	for {
		err := check()
		if err == nil {
			return nil
		}
		if time.Since(began) > patience {
			return fmt.Errorf("not after %s: %w", patience, err)
		}
		time.Sleep(pause)
		pause = min(pause*3/2, 250*time.Millisecond)
	}
}
