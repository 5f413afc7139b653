package prometheus_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe/prometheus"
	"github.com/sutler-dev/sutler/provisioner"
)

// instrument has both workers measured, and returns what serves /metrics.
func instrument(operators *provisioner.Config, setup *containersetup.Config) (http.Handler, error) {
	registry := client.NewRegistry()
	metrics, err := prometheus.New(prometheus.Config{Registerer: registry})
	if err != nil {
		return nil, err
	}
	operators.Metrics = metrics.Operators()
	setup.Metrics = metrics.Setup()
	setup.Lock = metrics.Lock(setup.Lock)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}), nil
}

// An agent measures its workers and serves /metrics itself.
func Example() {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	controller.AddApplication("mysql", fakes.App{})
	config := provisioner.Config{
		Facade:          controller,
		OperatorManager: fakes.NewManager(faults),
		Agent:           fakes.NewAgent(controller.CACert()),
		ModelUUID:       fakes.ModelUUID,
		Clock:           clock.WallClock,
	}
	handler, err := instrument(&config, new(containersetup.Config))
	if err != nil {
		fmt.Println(err)
		return
	}
	w, err := provisioner.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}

	// On an address that is the agent's to choose.
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	server := httptest.NewServer(mux)
	defer server.Close()
	fmt.Println(await(server.URL+"/metrics", `sutler_operator_applications{state="settled"} 1`))

	w.Kill()
	fmt.Println("ended with", w.Wait())
	fmt.Println(await(server.URL+"/metrics", "sutler_operator_workers 0"))
	// Output:
	// sutler_operator_applications{state="settled"} 1
	// ended with <nil>
	// sutler_operator_workers 0
}

// await scrapes until a line is exposed.
func await(url, line string) string {
	for range 1000 {
		response, err := http.Get(url) //nolint:gosec // The example's own server.
		if err != nil {
			return err.Error()
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return err.Error()
		}
		if strings.Contains(string(body), "\n"+line+"\n") {
			return line
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "no " + line
}

// show prints the series of some metrics.
func show(gatherer client.Gatherer, names ...string) {
	families, err := gatherer.Gather()
	if err != nil {
		fmt.Println(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, name := range names {
				if f.GetName() == name {
					var labels []string
					for _, l := range m.GetLabel() {
						labels = append(labels, l.GetName()+"="+l.GetValue())
					}
					fmt.Println(name, labels, m.GetCounter().GetValue()+m.GetGauge().GetValue())
				}
			}
		}
	}
}

// A registry that has the same metrics already refuses, and nothing is changed.
func ExampleNew_alreadyExists() {
	registry := client.NewRegistry()
	_, err := prometheus.New(prometheus.Config{Registerer: registry})
	fmt.Println(err)
	_, err = prometheus.New(prometheus.Config{Registerer: registry})
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.AlreadyExists))
	// Output:
	// <nil>
	// registering metrics: metrics with the same names and constant labels already exists
	// true
}

// A config with a mistake registers nothing.
func ExampleConfig_Validate() {
	fmt.Println(prometheus.Config{}.Validate())
	config := prometheus.Config{
		Registerer:  client.NewRegistry(),
		ConstLabels: map[string]string{"state": "of the art"},
	}
	fmt.Println(config.Validate())
	// Output:
	// nil Registerer not valid
	// name "state" in ConstLabels, which is a label of these metrics, not valid
}

// An agent with two models tells them apart.
func ExampleConfig_constLabels() {
	registry := client.NewRegistry()
	for _, model := range []string{"prod", "test"} {
		metrics, err := prometheus.New(prometheus.Config{
			Registerer:  registry,
			ConstLabels: map[string]string{"model": model},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		if model == "test" {
			// What a worker would tell.
			metrics.Operators().PassDone(provisioner.Pass{Outcome: provisioner.OutcomeFailed, Attempts: 3})
		}
	}
	show(registry, "sutler_operator_retries_total")
	// Output:
	// sutler_operator_retries_total [model=prod] 0
	// sutler_operator_retries_total [model=test] 1
}

// The machine lock is wrapped where it is handed out, for whoever takes it.
func ExampleMetrics_Lock() {
	registry := client.NewRegistry()
	metrics, err := prometheus.New(prometheus.Config{Registerer: registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	lock := metrics.Lock(fakes.NewLock(fakes.NewFaults(clock.WallClock)))

	release, err := lock.Acquire(context.Background(), containersetup.Holder{Worker: "upgrader", Reason: "new kernel"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = lock.Acquire(ctx, containersetup.Holder{Worker: "container-setup", Reason: "initialise lxd"})
	fmt.Println(err)
	release()
	show(registry, "sutler_machine_lock_failures_total")
	// Output:
	// context canceled
	// sutler_machine_lock_failures_total [worker=container-setup] 1
	// sutler_machine_lock_failures_total [worker=hostprep] 0
	// sutler_machine_lock_failures_total [worker=upgrader] 0
}

// Both workers of a machine are measured by one Metrics; the provisioners that
// the handler starts with it.
func ExampleMetrics_Setup() {
	registry := client.NewRegistry()
	metrics, err := prometheus.New(prometheus.Config{Registerer: registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	faults := fakes.NewFaults(clock.WallClock)
	machine, host := fakes.NewMachine(faults, "0"), fakes.NewHost(faults)
	w, err := containersetup.New(containersetup.Config{
		Facade:         machine,
		MachineID:      machine.ID(),
		Backends:       host.Backends(containersetup.LXD),
		SupportedTypes: []containersetup.ContainerType{containersetup.LXD},
		Lock:           metrics.Lock(host.Lock()),
		Network:        host.Network(),
		Bridger:        host.Bridger(),
		Clock:          clock.WallClock,
		Metrics:        metrics.Setup(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Kill()
	fmt.Println("ended with", w.Wait())
	show(registry, "sutler_container_setup_workers", "sutler_container_setup_worker_starts_total")
	// Output:
	// ended with <nil>
	// sutler_container_setup_worker_starts_total [] 1
	// sutler_container_setup_workers [] 0
}
