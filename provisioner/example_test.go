package provisioner_test

import (
	"fmt"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

// An agent brings a controller, an operator manager and its own configuration;
// here all three are in memory.
func ExampleNew() {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	manager := fakes.NewManager(faults)
	controller.AddApplication("mysql", fakes.App{})

	passes := make(passChannel, 100)
	w, err := provisioner.New(provisioner.Config{
		Facade:          controller,
		OperatorManager: manager,
		Agent:           fakes.NewAgent(controller.CACert()),
		ModelUUID:       fakes.ModelUUID,
		Clock:           clock.WallClock,
		Metrics:         passes,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	pass := <-passes
	fmt.Println(pass.Application, "is", pass.Outcome)
	fmt.Println("operators of", manager.Apps())

	w.Kill()
	fmt.Println("ended with", w.Wait())
	// Output:
	// mysql is settled
	// operators of [mysql]
	// ended with <nil>
}

// A config with a mistake starts nothing.
func ExampleNew_notValid() {
	_, err := provisioner.New(provisioner.Config{ModelUUID: "prod"})
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.NotValid))
	// Output:
	// operator provisioner config: nil Facade not valid
	// true
}

func ExampleConfig_Validate() {
	_, _, config := exampleWorld()
	fmt.Println(config.Validate())
	config.ModelUUID = "prod"
	fmt.Println(config.Validate())
	// Output:
	// <nil>
	// ModelUUID "prod" (want a UUID) not valid
}

// In a dry run the controller and the manager are read, and nothing is
// written. The report says what would have been done.
func ExampleConfig_dryRun() {
	controller, manager, config := exampleWorld()
	controller.AddApplication("mysql", fakes.App{})

	config.DryRun = true
	w, pass := start(config, "mysql")
	defer stop(w)
	fmt.Println("mysql is", pass.Outcome)
	fmt.Println(w.Report()["dry-run"])
	fmt.Println("operators of", manager.Apps())
	// Output:
	// mysql is settled
	// map[mysql:create the operator]
	// operators of []
}

// Two agents share a model: each keeps to the applications that are its own.
func ExampleConfig_owns() {
	controller, manager, config := exampleWorld()
	controller.AddApplication("mysql", fakes.App{})
	controller.AddApplication("zookeeper", fakes.App{})

	config.Owns = func(app string) bool { return app < "n" }
	w, pass := start(config, "zookeeper")
	defer stop(w)
	fmt.Println("zookeeper is", pass.Outcome)

	config.Owns = func(app string) bool { return app >= "n" }
	other, pass := start(config, "zookeeper")
	defer stop(other)
	fmt.Println("zookeeper is", pass.Outcome)
	fmt.Println("it exists:", manager.State("zookeeper").Exists)
	// Output:
	// zookeeper is forgotten
	// zookeeper is settled
	// it exists: true
}

// The operator manager refused, and the application waits for an hour. Who has
// mended the cause need not wait with it.
func ExampleWorker_Trigger() {
	controller, manager, config := exampleWorld()
	controller.AddApplication("mysql", fakes.App{})
	manager.Faults().Fail("EnsureOperator", "mysql", errors.Unauthorizedf("service account"))

	passes := make(passChannel, 100)
	config.Metrics = passes
	config.Backoff = func(time.Duration, int) time.Duration { return time.Hour }
	w, err := provisioner.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop(w)

	pass := <-passes
	fmt.Println(pass.Outcome, "with:", pass.Err)
	fmt.Println("triggered:", w.Trigger("mysql"))
	fmt.Println((<-passes).Outcome)
	fmt.Println(w.Trigger("My SQL"))
	// Output:
	// failed with: ensuring the operator: service account
	// triggered: <nil>
	// settled
	// application name "My SQL" not valid
}

// The report has totals, and describes each application that is not settled.
func ExampleWorker_Report() {
	controller, manager, config := exampleWorld()
	controller.AddApplication("mysql", fakes.App{})
	manager.Faults().Fail("EnsureOperator", "mysql", errors.New("no room"))
	config.Backoff = func(time.Duration, int) time.Duration { return time.Hour }

	w, _ := start(config, "mysql")
	defer stop(w)
	report := w.Report()
	fmt.Println(report["totals"])
	for _, item := range report["applications"].([]any) {
		app := item.(map[string]any)
		// Besides: "since" and "next", in RFC 3339.
		fmt.Println(app["name"], app["state"], app["attempts"], app["error"])
	}
	// Output:
	// map[failed:1 queued:0 running:0 settled:0 stuck:0 waiting:0]
	// mysql failed 1 ensuring the operator: no room
}

// A NewWorker of one's own is where a host sets what it wants other than the
// defaults.
func ExampleStart() {
	config := provisioner.ManifoldConfig{
		AgentName:           "agent",
		FacadeName:          "controller",
		OperatorManagerName: "operator-manager",
		ClockName:           "clock",
		ModelUUID:           fakes.ModelUUID,
		NewWorker: func(config provisioner.Config) (worker.Worker, error) {
			config.Concurrency = 64
			config.StorageProviders = []string{"rootfs", "tmpfs"}
			return provisioner.Start(config)
		},
	}
	fmt.Println(config.Validate())
	// Output: <nil>
}

func ExampleManifoldConfig_Validate() {
	config := provisioner.ManifoldConfig{AgentName: "agent"}
	fmt.Println(config.Validate())
	// Output: empty FacadeName not valid
}

// The examples of the seven outcomes tell how a pass over one application
// ends, and what is done about it.

// An operator is in place. Nothing more is done until something changes.
func ExampleOutcome_settled() {
	controller, manager, config := exampleWorld()
	controller.AddApplication("mysql", fakes.App{})

	w, pass := start(config, "mysql")
	defer stop(w)
	fmt.Println(pass.Outcome)
	fmt.Println("it exists:", manager.State("mysql").Exists)
	password, told := controller.Password("mysql")
	fmt.Println("the controller knows its password:", told, password)
	// Output:
	// settled
	// it exists: true
	// the controller knows its password: true [redacted]
}

// Another example of what is settled: a charm of format 2 needs no operator.
func ExampleOutcome_settledWithoutOperator() {
	controller, manager, config := exampleWorld()
	controller.AddApplication("mysql", fakes.App{Charm: fakes.Charm(2)})

	w, pass := start(config, "mysql")
	defer stop(w)
	fmt.Println(pass.Outcome)
	fmt.Println("operators of", manager.Apps())
	// Output:
	// settled
	// operators of []
}

// The application is gone, and now its operator is too.
func ExampleOutcome_forgotten() {
	controller, manager, config := exampleWorld()
	controller.AddApplication("mysql", fakes.App{})
	w, _ := start(config, "mysql")
	stop(w)

	controller.RemoveApplication("mysql")
	// With an operator.Lister, the next worker finds what is left over.
	config.OperatorManager = manager.With(fakes.Listing)
	config.TerminationPoll = time.Millisecond
	w, pass := start(config, "mysql", provisioner.OutcomeForgotten)
	defer stop(w)
	fmt.Println(pass.Outcome)
	fmt.Println("operators of", manager.Apps())
	// Output:
	// forgotten
	// operators of []
}

// The previous operator of that name has to end first. Nobody else is held up:
// it is looked at again every TerminationPoll.
func ExampleOutcome_waiting() {
	controller, manager, config := exampleWorld()
	controller.AddApplication("mysql", fakes.App{})
	w, _ := start(config, "mysql")
	stop(w)
	manager.SetTermination(fakes.Termination{Forever: true})
	deleteBehindItsBack(manager, "mysql")

	w, pass := start(config, "mysql")
	defer stop(w)
	fmt.Println(pass.Outcome, pass.Err)
	app := w.Report()["applications"].([]any)[0].(map[string]any)
	fmt.Println(app["error"])
	// Output:
	// waiting the previous operator is still terminating
	// the previous operator is still terminating
}

// As waiting, for longer than TerminationTimeout: somebody should have a look.
// The worker goes on looking, too.
func ExampleOutcome_stuck() {
	controller, manager, config := exampleWorld()
	controller.AddApplication("mysql", fakes.App{})
	w, _ := start(config, "mysql")
	stop(w)
	manager.SetTermination(fakes.Termination{Forever: true})
	deleteBehindItsBack(manager, "mysql")

	config.TerminationPoll = time.Millisecond
	config.TerminationTimeout = time.Nanosecond
	w, pass := start(config, "mysql", provisioner.OutcomeStuck)
	defer stop(w)
	fmt.Println(pass.Outcome)
	fmt.Println(w.Report()["totals"].(map[string]any)["settled"], "settled")
	// Output:
	// stuck
	// 0 settled
}

// An error that may pass by itself: the next try comes after a back-off.
func ExampleOutcome_failed() {
	controller, manager, config := exampleWorld()
	controller.AddApplication("mysql", fakes.App{})
	manager.Faults().Fail("EnsureOperator", "mysql", errors.New("no room"))

	w, pass := start(config, "mysql")
	defer stop(w)
	fmt.Println(pass.Outcome, "with:", pass.Err)
	// Output: failed with: ensuring the operator: no room
}

// An error that no repetition mends: the next try comes at the longest delay,
// or when something changes.
func ExampleOutcome_permanent() {
	controller, _, config := exampleWorld()
	controller.AddApplication("mysql", fakes.App{Info: storage("nfs")})

	w, pass := start(config, "mysql")
	defer stop(w)
	fmt.Println(pass.Outcome, "with:", pass.Err)
	fmt.Println(errors.Is(pass.Err, errors.NotSupported))
	// Output:
	// permanent with: charm storage provider "nfs" (have ["kubernetes"]) not supported
	// true
}

// A panic in a facade or a manager is the failure of the one application that
// was being looked at. The stack is in the log.
func ExampleOutcome_panicked() {
	controller, manager, config := exampleWorld()
	controller.AddApplication("mysql", fakes.App{})
	manager.Faults().Add(fakes.Rule{
		Method: "EnsureOperator", Key: "mysql",
		Effect: fakes.Effect{Panic: "index out of range"},
	})

	w, pass := start(config, "mysql")
	defer stop(w)
	fmt.Println(pass.Outcome, "with:", pass.Err)
	// Output: panicked with: panic: index out of range
}
