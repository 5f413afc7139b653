package embedding

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/juju/clock"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe"
	"github.com/sutler-dev/sutler/observe/page"
	sutlermetrics "github.com/sutler-dev/sutler/observe/prometheus"
	"github.com/sutler-dev/sutler/provisioner"
)

func Example_outside() {
	registry := prometheus.NewRegistry()
	metrics, err := sutlermetrics.New(sutlermetrics.Config{Registerer: registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	shown, err := page.New(page.Config{
		Clock:   clock.WallClock,
		Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	controller.AddApplication("mysql", fakes.App{})
	heard := make(passes, 100)
	w, err := provisioner.New(provisioner.Config{
		Facade: controller.Plain(), OperatorManager: fakes.NewManager(faults).Plain(),
		Agent: fakes.NewAgent(controller.CACert()), ModelUUID: fakes.ModelUUID, Clock: clock.WallClock,
		// For the other worker: containersetup.Config.Metrics and
		// observe.Setup(metrics.Setup(), shown.Setup()).
		Metrics: observe.Operators(metrics.Operators(), shown.Operators(), heard),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop(w)
	<-heard

	url, stopServing, err := serve(shown)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stopServing()
	fmt.Println("the page names it:", strings.Contains(url("/"), "mysql"))
	for line := range strings.Lines(url("/metrics")) {
		if strings.HasPrefix(line, "sutler_operator_passes_total") && strings.HasSuffix(line, " 1\n") {
			fmt.Print(line)
		}
	}
	// Output:
	// the page names it: true
	// sutler_operator_passes_total{outcome="settled"} 1
}

// serve serves on a unix socket that nobody else can open. It returns what reads
// from there, and what stops it.
func serve(handler http.Handler) (get func(path string) string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "agent") // mode 0700
	if err != nil {
		return nil, nil, err
	}
	socket := filepath.Join(dir, "introspection.sock")
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", socket)
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	get = func(path string) string {
		response, err := client.Get("http://localhost" + path)
		if err != nil {
			return err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err.Error()
		}
		return string(body)
	}
	return get, func() {
		client.CloseIdleConnections()
		_ = server.Close()
		<-served
		_ = os.RemoveAll(dir)
	}, nil
}
