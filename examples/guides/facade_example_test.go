package guides_test

import (
	"context"
	"fmt"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/guides"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// A facade tells absence by the kind of its error, whatever the wire says.
func ExampleNewFacade() {
	controller := fakes.NewController(fakes.NewFaults(clock.WallClock))
	controller.AddApplication("mysql", fakes.App{})
	f := guides.NewFacade(newWire(controller))

	fmt.Println(f.Life(context.Background(), "mysql"))
	_, err := f.Life(context.Background(), "redis")
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.NotFound))
	// Output:
	// alive <nil>
	// application "redis" not found
	// true
}

// What a controller cannot do, its facade does not have.
func ExampleConnected() {
	conn := newWire(fakes.NewController(fakes.NewFaults(clock.WallClock)))
	for version := 1; version <= 2; version++ {
		_, bulk := guides.Connected(conn, version).(facade.BulkApplications)
		fmt.Println(version, bulk)
	}
	// Output:
	// 1 false
	// 2 true
}
