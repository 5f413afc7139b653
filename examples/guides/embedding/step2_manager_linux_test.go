package embedding

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/operator/process"
)

func Example_manager() {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	manager, err := process.New(process.Config{
		Dir: filepath.Join(dir, "operators"),
		// A real one: "/usr/bin/operator", "--dir", "{dir}", "--application", "{application}"
		Command: []string{"sleep", "infinity"},
		Clock:   clock.WallClock,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop(manager) // leaves the operators running, for the next agent

	state, err := manager.OperatorExists(context.Background(), "mysql")
	fmt.Printf("%+v %v\n", state, err)
	// Output:
	// {Exists:false Terminating:false} <nil>
}
