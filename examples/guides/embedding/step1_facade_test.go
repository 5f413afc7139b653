package embedding

import (
	"context"
	"fmt"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

func Example_facade() {
	controller := fakes.NewController(fakes.NewFaults(clock.WallClock))
	controller.AddApplication("mysql", fakes.App{})

	var applications facade.Applications = controller
	life, err := applications.Life(context.Background(), "mysql")
	fmt.Println(life, err)
	_, err = applications.Life(context.Background(), "postgresql")
	fmt.Println("not found:", errors.Is(err, errors.NotFound))
	// Output:
	// alive <nil>
	// not found: true
}
