package batch_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/internal/batch"
)

// Many goroutines set one password each. What comes while a call is under way
// leaves with the next one, and an application's error is its own.
func Example() {
	underWay, goOn := make(chan struct{}), make(chan struct{})
	first := true
	setPasswords := func(_ context.Context, apps []string) ([]batch.Result[struct{}], error) {
		if first { // one call at a time: no lock
			first = false
			close(underWay)
			<-goOn
		}
		results := make([]batch.Result[struct{}], len(apps))
		for i, app := range apps {
			if app == "bad" {
				results[i].Err = errors.NotFoundf("application %q", app)
			}
		}
		return results, nil
	}
	b, err := batch.New(batch.Config[string, struct{}]{
		Call:    setPasswords,
		Context: context.Background(),
		Timeout: time.Minute,
		Clock:   clock.WallClock,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	errs := make([]error, 3)
	var wg sync.WaitGroup
	do := func(i int, app string) {
		wg.Go(func() { _, errs[i] = b.Do(context.Background(), app) })
	}
	do(0, "mysql")
	<-underWay
	do(1, "bad")
	do(2, "wordpress")
	close(goOn)
	wg.Wait()
	fmt.Println(errs)
	// Output:
	// [<nil> application "bad" not found <nil>]
}

func ExampleNew_notValid() {
	_, err := batch.New(batch.Config[string, string]{})
	fmt.Println(err)
	// Output:
	// nil Call not valid
}

// The server refuses a whole message because of one item. Splits lets the
// batcher find out which one; the others succeed.
func ExampleConfig_splits() {
	call := func(_ context.Context, names []string) ([]batch.Result[string], error) {
		results := make([]batch.Result[string], len(names))
		for i, name := range names {
			if name == "" {
				return nil, errors.BadRequestf("empty name in message")
			}
			results[i].Value = strings.ToUpper(name)
		}
		return results, nil
	}
	b, err := batch.New(batch.Config[string, string]{
		Call:    call,
		Context: context.Background(),
		Timeout: time.Minute,
		Clock:   clock.WallClock,
		Splits:  func(err error) bool { return errors.Is(err, errors.BadRequest) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	names := []string{"mysql", "", "gitlab"}
	answers := make([]string, len(names))
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { answers[i], errs[i] = b.Do(context.Background(), name) })
	}
	wg.Wait()
	fmt.Printf("%q %v\n", answers, errs)
	// Output:
	// ["MYSQL" "" "GITLAB"] [<nil> empty name in message <nil>]
}
