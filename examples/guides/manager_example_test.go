package guides_test

import (
	"context"
	"fmt"
	"os"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/guides"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/managertest"
)

// Of two that worked from the same configuration, the second is refused: it
// has to read again what the first one made of it.
func ExampleNewManager() {
	dir, err := os.MkdirTemp("", "operators-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	manager, err := guides.NewManager(dir)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	first, second := managertest.Config("mysql", 1), managertest.Config("mysql", 2)
	fmt.Println(manager.EnsureOperator(ctx, "mysql", "/var/lib/juju", first))
	err = manager.EnsureOperator(ctx, "mysql", "/var/lib/juju", second)
	fmt.Println(err)
	fmt.Println(errors.Is(err, operator.ErrConflict))

	op, err := manager.Operator(ctx, "mysql")
	if err != nil {
		fmt.Println(err)
		return
	}
	second.Generation = op.Config.Generation
	fmt.Println(manager.EnsureOperator(ctx, "mysql", "/var/lib/juju", second))
	// Output:
	// <nil>
	// storing the configuration: operator configuration conflict
	// true
	// <nil>
}
