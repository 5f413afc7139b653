package report

import (
	"context"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/agent/internal/socket"
)

// socketName is the socket's, in the agent's directory.
const socketName = "report.sock"

// Fetch returns the report of the agent whose directory is dir, or an
// errors.NotFound when none runs there.
func Fetch(ctx context.Context, dir string) ([]byte, error) {
	data, err := socket.Read(ctx, dir, socketName)
	if errors.Is(err, errors.NotFound) {
		return nil, errors.NotFoundf("running agent")
	}
	if err == nil && len(data) == 0 {
		err = errors.New("the agent is stopping")
	}
	return data, errors.Annotate(err, "asking for the report")
}
