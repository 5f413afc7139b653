package guides_test

import (
	"context"
	"fmt"
	"os"

	"github.com/sutler-dev/sutler/containersetup/backendtest"
	"github.com/sutler-dev/sutler/examples/guides"
	"github.com/sutler-dev/sutler/fakes"
)

// A second start, as after a lost reply, finds the instance of the first.
func ExampleNewBackend() {
	home, err := os.MkdirTemp("", "supervisor-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(home) }()
	backend, err := guides.NewBackend(home, fakes.ModelUUID)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	fmt.Println(backend.Initialiser.Initialise(ctx))
	broker, err := backend.NewBroker(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		result, err := broker.StartInstance(ctx, backendtest.Params("0/folder/1"))
		fmt.Println(result.InstanceID, err)
	}
	list, err := broker.AllInstances(ctx)
	fmt.Println(list, err)
	fmt.Println(broker.StopInstances(ctx, list[0].ID, "no-such-instance"))
	// Output:
	// <nil>
	// juju-6f2e04-0-folder-1 <nil>
	// juju-6f2e04-0-folder-1 <nil>
	// [{juju-6f2e04-0-folder-1 0/folder/1 true boots}] <nil>
	// [<nil> <nil>]
}
