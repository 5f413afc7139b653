package keyqueue_test

import (
	"context"
	"fmt"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/internal/keyqueue"
)

// A worker's loop: take a key, look at it, say how that went. Several
// goroutines may run the same loop on one queue.
func Example() {
	queue, err := keyqueue.New[string](keyqueue.Config{Clock: clock.WallClock})
	if err != nil {
		fmt.Println(err)
		return
	}
	queue.Add(keyqueue.Background, "mysql") // found at start
	queue.Add(keyqueue.Background, "wordpress")
	queue.Add(keyqueue.Fresh, "gitlab") // an event

	attempts := map[string]int{}
	pass := func(app string) error {
		attempts[app]++
		if app == "mysql" && attempts[app] == 1 {
			return errors.New("no answer")
		}
		return nil
	}
	for {
		item, err := queue.Take(context.Background())
		if errors.Is(err, keyqueue.ErrClosed) {
			return
		}
		if err := pass(item.Key); err != nil {
			fmt.Printf("%s: %v\n", item.Key, err)
			queue.DoneAfter(item.Key, time.Millisecond)
			continue
		}
		fmt.Printf("%s: settled, after a delay of %v\n", item.Key, item.Delay)
		queue.Done(item.Key)
		if len(attempts) == 3 && queue.Stats() == (keyqueue.Stats{}) {
			queue.Close()
		}
	}
	// Output:
	// gitlab: settled, after a delay of 0s
	// mysql: no answer
	// wordpress: settled, after a delay of 0s
	// mysql: settled, after a delay of 1ms
}

func ExampleNew_notValid() {
	_, err := keyqueue.New[string](keyqueue.Config{})
	fmt.Println(err)
	_, err = keyqueue.New[*string](keyqueue.Config{Clock: clock.WallClock})
	fmt.Println(err)
	// Output:
	// nil Clock not valid
	// key type *string (keys are compared by value) not valid
}

// A key that is dirtied while it runs, however often, runs once more.
func ExampleQueue_Add() {
	queue, err := keyqueue.New[string](keyqueue.Config{Clock: clock.WallClock})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer queue.Close()
	queue.Add(keyqueue.Fresh, "mysql")
	item, _ := queue.Take(context.Background())
	queue.Add(keyqueue.Background, "mysql")
	queue.Add(keyqueue.Fresh, "mysql")
	fmt.Println(queue.Status("mysql").State, queue.Stats().Queued)
	queue.Done(item.Key)
	fmt.Println(queue.Status("mysql").State, queue.Stats().Queued)
	// Output:
	// running 0
	// queued 1
}

// A key that waits after a failure is not hammered by resyncs, but a fresh
// event cuts its delay short.
func ExampleQueue_DoneAfter() {
	queue, err := keyqueue.New[string](keyqueue.Config{Clock: clock.WallClock})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer queue.Close()
	queue.Add(keyqueue.Fresh, "mysql")
	item, _ := queue.Take(context.Background())
	queue.DoneAfter(item.Key, time.Hour)
	queue.Add(keyqueue.Background, "mysql")
	fmt.Println(queue.Status("mysql").State)
	queue.Add(keyqueue.Fresh, "mysql")
	fmt.Println(queue.Status("mysql").State)
	// Output:
	// waiting
	// queued
}
