package embedding

import (
	"fmt"
	"time"

	"github.com/juju/clock"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

func Example_report() {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	controller.AddApplication("mysql", fakes.App{})
	info := fakes.Info()
	info.CharmStorage = &facade.CharmStorage{StorageName: "charm", Size: 1024, Provider: "cinder"}
	controller.AddApplication("zookeeper", fakes.App{Info: info})

	heard := make(passes, 100)
	w, err := provisioner.New(provisioner.Config{
		Facade: controller.Plain(), OperatorManager: fakes.NewManager(faults).Plain(),
		Agent: fakes.NewAgent(controller.CACert()), ModelUUID: fakes.ModelUUID, Clock: clock.WallClock,
		Metrics: heard,
		Backoff: func(time.Duration, int) time.Duration { return time.Hour },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop(w)
	<-heard
	<-heard

	report := w.Report()
	fmt.Println(report["totals"])
	for _, application := range report["applications"].([]any) {
		fields := application.(map[string]any)
		fmt.Println(fields["name"], fields["state"], "-", fields["error"])
	}
	_, err = yaml.Marshal(report)
	fmt.Println("as YAML:", err)
	// Output:
	// map[failed:1 queued:0 running:0 settled:1 stuck:0 waiting:0]
	// zookeeper failed - charm storage provider "cinder" (have ["kubernetes"]) not supported
	// as YAML: <nil>
}
