package process_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/process"
)

// An agent keeps its operators in a directory of its own. Here an operator is a
// program that sleeps; a real one reads the files in its directory.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "operators")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()

	manager, err := process.New(process.Config{
		Dir:     filepath.Join(dir, "operators"),
		Command: []string{"sleep", "1000000"}, // or: "/usr/bin/agent", "operator", "--dir", "{dir}"
		Env:     []string{"LANG=C.UTF-8"},
		Clock:   clock.WallClock,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// The operator provisioner does this.
	ctx := context.Background()
	err = manager.EnsureOperator(ctx, "mysql", "/var/lib/juju", &operator.Config{
		AgentConf:    facade.NewSecret("# format 2.0\n..."),
		OperatorInfo: facade.NewSecret("cert: ..."),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := manager.OperatorExists(ctx, "mysql")
	fmt.Printf("%+v %v\n", state, err)

	// Only one manager at a time works on a directory.
	_, err = process.New(process.Config{
		Dir:     filepath.Join(dir, "operators"),
		Command: []string{"sleep", "1000000"},
		Clock:   clock.WallClock,
	})
	fmt.Println(errors.Is(err, errors.AlreadyExists))

	// The end of the manager leaves the operators running, for the next one
	// to adopt. An agent that is to leave nothing behind says so.
	fmt.Println(worker.Stop(manager))
	fmt.Println(manager.StopOperators(ctx))
	// Output:
	// {Exists:true Terminating:false} <nil>
	// true
	// <nil>
	// <nil>
}

// While an application's previous operator terminates, there is no new one.
func ExampleManager_DeleteOperator() {
	dir, err := os.MkdirTemp("", "operators")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	manager, err := process.New(process.Config{Dir: dir, Command: []string{"sleep", "1000000"}, Clock: clock.WallClock})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = worker.Stop(manager) }()

	ctx := context.Background()
	watcher, err := manager.WatchOperators(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = worker.Stop(watcher) }()
	fmt.Println("baseline:", <-watcher.Changes())

	err = manager.EnsureOperator(ctx, "mysql", "/var/lib/juju", &operator.Config{
		AgentConf:    facade.NewSecret("# format 2.0\n..."),
		OperatorInfo: facade.NewSecret("cert: ..."),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := manager.DeleteOperator(ctx, "mysql"); err != nil {
		fmt.Println(err)
		return
	}
	for {
		changed := <-watcher.Changes()
		if _, err := manager.Operator(ctx, "mysql"); errors.Is(err, errors.NotFound) {
			fmt.Println("gone:", changed)
			return
		}
	}
	// Output:
	// baseline: []
	// gone: [mysql]
}
