package api_test

import (
	"context"
	"fmt"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
)

// What a creation has come to, in the order in which it matters.
func ExampleClient_CreateInstance() {
	ctx := context.Background()
	client, err := api.New(api.Config{
		Socket:           "/var/lib/no-lxd-here/unix.socket",
		Clock:            clock.WallClock,
		OperationTimeout: 5 * time.Minute,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	err = client.CreateInstance(ctx, api.CreateInstance{
		Name:   "juju-123abc-0-lxd-1",
		Alias:  "ubuntu/24.04",
		Config: map[string]string{"user.user-data": "#cloud-config\n{}", "boot.autostart": "true"},
	})
	switch {
	case err == nil:
		fmt.Println("made, and stopped")
	case errors.Is(err, errors.AlreadyExists):
		fmt.Println("there already, half made perhaps")
	case errors.Is(err, api.ErrNoReply), errors.Is(err, api.ErrOperationLost):
		fmt.Println("made or not: to be looked at")
	case errors.Is(err, errors.NotYetAvailable):
		fmt.Println("no daemon")
	case errors.Is(err, errors.NotFound):
		fmt.Println("no such image")
	default:
		fmt.Println(err)
	}
	// Output: no daemon
}
