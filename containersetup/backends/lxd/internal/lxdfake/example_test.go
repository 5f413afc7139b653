package lxdfake_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/lxdfake"
)

// In a test, t is what the test was given.
func Example() {
	run(func(t testing.TB) {
		fake := lxdfake.New(t)
		fake.AddPool(api.StoragePool{Name: "default", Driver: "dir"})
		fake.SetProfile(api.Profile{
			Name:    "default",
			Devices: api.Devices{"root": {"type": "disk", "path": "/", "pool": "default"}},
		})
		fake.AddImage("tiny", fingerprint)

		client, err := api.New(api.Config{Socket: fake.Socket(), Clock: clock.WallClock})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()

		// The answer is lost, and the instance is there.
		fake.LoseReply(http.MethodPost, "/1.0/instances")
		err = client.CreateInstance(context.Background(), api.CreateInstance{Name: "c1", Alias: "tiny"})
		fmt.Println("no reply:", errors.Is(err, api.ErrNoReply))
		fmt.Println("instances:", len(fake.Instances()))

		// The pool is full.
		fake.FailOperation(http.MethodPut, "/1.0/instances/*/state", "no space left on device", 1)
		fmt.Println(client.StartInstance(context.Background(), "c1"))

		fmt.Println(client.StartInstance(context.Background(), "c1"))
		for _, change := range fake.Changes() {
			fmt.Println(change)
		}
	})
	// Output:
	// no reply: true
	// instances: 1
	// starting instance "c1": LXD: no space left on device
	// <nil>
	// POST /1.0/instances
	// PUT /1.0/instances/c1/state
	// PUT /1.0/instances/c1/state
}

const fingerprint = "aa295c4a85c875a7f4103b3ea65b2fbba9c1e5ac38909949a63d4c20b4c8a583"

// run runs f with a test of its own, which an example does not have.
func run(f func(testing.TB)) {
	t := &example{}
	defer func() {
		for _, clean := range t.cleanups {
			defer clean()
		}
	}()
	f(t)
}

type example struct {
	testing.TB
	cleanups []func()
}

func (*example) Helper()                   {}
func (e *example) Cleanup(f func())        { e.cleanups = append(e.cleanups, f) }
func (*example) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (*example) Errorf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
