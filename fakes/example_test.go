package fakes_test

import (
	"context"
	"fmt"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
)

// What a worker under test would do is done by hand here.

func ExampleNewController() {
	ctx := context.Background()
	controller := fakes.NewController(fakes.NewFaults(clock.WallClock))
	controller.AddApplication("postgresql", fakes.App{})

	// The worker's side.
	life, _ := controller.Life(ctx, "postgresql")
	password := facade.NewSecret("fa3e0c1d")
	results, err := controller.SetPasswords(ctx, []facade.ApplicationPassword{{Name: "postgresql", Password: password}})
	fmt.Println(life, results, err)

	// The test's side.
	fmt.Println("log-in:", controller.Login("postgresql", password))
	fmt.Println("wrong log-in:", controller.Login("postgresql", facade.NewSecret("guess")))
	// Output:
	// alive [<nil>] <nil>
	// log-in: <nil>
	// wrong log-in: log-in of application "postgresql"
}

func ExampleNewManager() {
	ctx := context.Background()
	manager := fakes.NewManager(fakes.NewFaults(clock.WallClock))
	cfg := &operator.Config{
		AgentConf:    facade.NewSecret("# format 2.0\n"),
		OperatorInfo: facade.NewSecret("cert: pem\n"),
	}
	for range 2 {
		if err := manager.EnsureOperator(ctx, "postgresql", "/var/lib/juju", cfg); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Printf("%+v after %d write\n", manager.State("postgresql"), manager.Writes("postgresql"))

	other := cfg.Clone()
	other.AgentConf = facade.NewSecret("# format 2.0\ntag: application-postgresql\n")
	err := manager.EnsureOperator(ctx, "postgresql", "/var/lib/juju", other)
	fmt.Println("not having read what is stored:", errors.Is(err, operator.ErrConflict))

	manager.Vanish("postgresql")
	_, err = manager.Operator(ctx, "postgresql")
	fmt.Println("vanished:", errors.Is(err, errors.NotFound))
	// Output:
	// {Exists:true Terminating:false} after 1 write
	// not having read what is stored: true
	// vanished: true
}

// A reply is lost: the password is set, and the worker does not hear of it.
func ExampleFaults() {
	ctx := context.Background()
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	controller.AddApplication("postgresql", fakes.App{})
	faults.Add(fakes.Rule{
		Method: "SetPasswords",
		Effect: fakes.Effect{Err: errors.Timeoutf("reply"), Act: fakes.Fully},
	})

	password := facade.NewSecret("fa3e0c1d")
	_, err := controller.SetPasswords(ctx, []facade.ApplicationPassword{{Name: "postgresql", Password: password}})
	fmt.Println(err)
	fmt.Println("log-in:", controller.Login("postgresql", password))
	fmt.Println(faults.Calls()[0])
	// Output:
	// reply timeout
	// log-in: <nil>
	// 1 SetPasswords(["postgresql"]): reply timeout
}

// Every third question about an application's life fails, in every run the
// same ones.
func ExampleFaults_OnCall() {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	controller.AddApplication("postgresql", fakes.App{})
	faults.OnCall(func(c fakes.Call) fakes.Effect {
		if c.Method == "Life" && c.N%3 == 0 {
			return fakes.Effect{Err: errors.New("overloaded")}
		}
		return fakes.Effect{}
	})
	for range 4 {
		_, err := controller.Life(context.Background(), "postgresql")
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// overloaded
	// <nil>
}

// The application dies between two reads.
func ExampleEffect() {
	ctx := context.Background()
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	controller.AddApplication("postgresql", fakes.App{})
	faults.Add(fakes.Rule{
		Method: "Life",
		Effect: fakes.Effect{Then: func() { controller.SetLife("postgresql", facade.Dead) }},
	})
	for range 2 {
		life, _ := controller.Life(ctx, "postgresql")
		fmt.Println(life)
	}
	// Output:
	// alive
	// dead
}

func ExampleAlter() {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	controller.AddApplication("postgresql", fakes.App{})
	faults.Add(fakes.Rule{
		Method: "OperatorProvisioningInfo",
		Effect: fakes.Effect{Answer: fakes.Alter(func(info facade.OperatorProvisioningInfo) facade.OperatorProvisioningInfo {
			info.Version = ""
			return info
		})},
	})
	info, _ := controller.OperatorProvisioningInfo(context.Background(), "postgresql")
	fmt.Println(info.Validate())
	// Output:
	// provisioning info with empty Version not valid
}

// A worker crashes right after its second call has taken effect, and another
// one goes on over a connection of its own.
func ExampleFaults_CutAt() {
	first := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(first)
	manager := fakes.NewManager(first)
	controller.AddApplication("postgresql", fakes.App{})
	first.CutAt(2, true)

	cfg := &operator.Config{AgentConf: facade.NewSecret("conf"), OperatorInfo: facade.NewSecret("info")}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, _ = controller.Life(ctx, "postgresql")
		_ = manager.EnsureOperator(ctx, "postgresql", "/var/lib/juju", cfg)
		done <- manager.DeleteOperator(ctx, "postgresql")
	}()
	<-first.Severed()
	cancel()
	fmt.Println("old worker:", <-done)

	second := fakes.NewFaults(clock.WallClock)
	state, err := manager.Session(second).OperatorExists(context.Background(), "postgresql")
	fmt.Printf("next worker: %+v %v\n", state, err)
	// Output:
	// old worker: context canceled
	// next worker: {Exists:true Terminating:false} <nil>
}

func ExampleGate() {
	faults := fakes.NewFaults(clock.WallClock)
	manager := fakes.NewManager(faults)
	gate := fakes.NewGate()
	faults.Add(fakes.Rule{Method: "DeleteOperator", Effect: fakes.Effect{Gate: gate}})

	done := make(chan error)
	go func() { done <- manager.DeleteOperator(context.Background(), "postgresql") }()
	<-gate.Arrived()
	fmt.Println(faults.Calls()[0])
	gate.Release()
	fmt.Println(<-done)
	// Output:
	// 1 DeleteOperator(postgresql) under way
	// <nil>
}

// A watcher dies under the worker's hands.
func ExampleController_Watchers() {
	controller := fakes.NewController(fakes.NewFaults(clock.WallClock))
	controller.AddApplication("postgresql", fakes.App{})
	w, err := controller.WatchApplications(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("baseline:", <-w.Changes())
	controller.SetLife("postgresql", facade.Dying)
	fmt.Println("change:", <-w.Changes())

	controller.Watchers("WatchApplications")[0].Fail(facade.ErrConnectionLost)
	fmt.Println(w.Wait())
	// Output:
	// baseline: [postgresql]
	// change: [postgresql]
	// controller connection lost
}

func ExampleNewStringsWatcher() {
	w := fakes.NewStringsWatcher("postgresql")
	w.Send([]string{"redis"})
	w.Send([]string{"redis"})
	fmt.Println(<-w.Changes())
	w.Close()
	_, ok := <-w.Changes()
	fmt.Println("open:", ok)
	w.Kill()
	fmt.Println(w.Wait())
	// Output:
	// [postgresql redis]
	// open: false
	// <nil>
}

// The controller hands out a certificate for somebody else.
func ExampleController_SetFlaw() {
	controller := fakes.NewController(fakes.NewFaults(clock.WallClock))
	controller.AddApplication("postgresql", fakes.App{})
	controller.SetFlaw(fakes.NoKey, "postgresql")
	cert, err := controller.IssueOperatorCertificate(context.Background(), "postgresql")
	fmt.Println(cert.Validate(), err)
	// Output:
	// operator certificate with empty PrivateKey not valid <nil>
}

// The deletion of an operator is still under way for two looks.
func ExampleManager_SetTermination() {
	ctx := context.Background()
	manager := fakes.NewManager(fakes.NewFaults(clock.WallClock))
	manager.SetTermination(fakes.Termination{Looks: 2})
	cfg := &operator.Config{AgentConf: facade.NewSecret("conf"), OperatorInfo: facade.NewSecret("info")}
	_ = manager.EnsureOperator(ctx, "postgresql", "/var/lib/juju", cfg)
	_ = manager.DeleteOperator(ctx, "postgresql")
	for range 3 {
		state, _ := manager.OperatorExists(ctx, "postgresql")
		fmt.Printf("%+v\n", state)
	}
	// Output:
	// {Exists:true Terminating:true}
	// {Exists:true Terminating:true}
	// {Exists:false Terminating:false}
}

func ExampleManager_With() {
	manager := fakes.NewManager(fakes.NewFaults(clock.WallClock))
	_, stages := manager.With(fakes.Staging | fakes.Listing).(operator.Stager)
	_, watches := manager.With(fakes.Staging | fakes.Listing).(operator.Watcher)
	fmt.Println(stages, watches)
	// Output:
	// true false
}

func ExampleNewAgent() {
	controller := fakes.NewController(fakes.NewFaults(clock.WallClock))
	agent := fakes.NewAgent(controller.CACert())
	fmt.Println(agent.DataDir(), agent.LogDir())

	controller.RotateCA()
	fmt.Println("up to date:", agent.CACert() == controller.CACert())
	agent.SetCACert(controller.CACert())
	fmt.Println("up to date:", agent.CACert() == controller.CACert())
	// Output:
	// /var/lib/juju /var/log/juju
	// up to date: false
	// up to date: true
}

func ExampleNewLog() {
	log := fakes.NewLog()
	log.Logger().Debug("told the controller", "application", "postgresql", "password", facade.NewSecret("canary"))
	fmt.Println(len(log.Lines("canary")), len(log.Lines("application=postgresql")))
	// Output:
	// 0 1
}

// Every call takes a while, on the clock of the fakes; in a testing/synctest
// bubble that is no time at all.
func ExampleFaults_SetLatency() {
	faults := fakes.NewFaults(clock.WallClock)
	manager := fakes.NewManager(faults)
	faults.SetLatency(time.Millisecond)
	_, err := manager.OperatorExists(context.Background(), "postgresql")
	call := faults.Calls()[0]
	fmt.Println(err, call.End.Sub(call.Start) >= time.Millisecond)
	// Output:
	// <nil> true
}
