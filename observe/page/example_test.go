package page_test

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
	"github.com/juju/errors"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe/page"
	"github.com/sutler-dev/sutler/provisioner"
)

// introspect has both workers shown, and returns what serves the page on a socket.
func introspect(operators *provisioner.Config, setup *containersetup.Config) (*http.Server, error) {
	p, err := page.New(page.Config{Clock: clock.WallClock, Title: "agent of machine 0"})
	if err != nil {
		return nil, err
	}
	operators.Metrics = p.Operators()
	setup.Metrics = p.Setup()
	return &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second}, nil
}

// An agent shows its workers on a unix socket that nobody else can open.
func ExampleNew() {
	operators, setup := configs("mysql")
	server, err := introspect(&operators, &setup)
	if err != nil {
		fmt.Println(err)
		return
	}

	dir, err := os.MkdirTemp("", "agent") // mode 0700
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", filepath.Join(dir, "introspection.sock"))
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		_ = server.Close()
		<-served
	}()

	stop := start(operators, setup)
	defer stop()
	body := ask(dir, "/", "all settled")
	fmt.Println(body[strings.Index(body, "<title>"):strings.Index(body, "</title>")])
	fmt.Print(ask(dir, "/ready", "ready\n"))
	// Output:
	// <title>all settled (1) – agent of machine 0
	// ready
}

// What is asked for by mistake is refused, and a host that is not ready says why.
func ExamplePage_ServeHTTP() {
	p, err := page.New(page.Config{
		Clock: clock.WallClock,
		Ready: func(context.Context) error { return errors.New("no connection to the controller") },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, target := range []string{"/healthz", "/ready", "/?state=fialed"} {
		fmt.Println(target)
		show(p, target)
	}
	// Output:
	// /healthz
	// 200 ok
	// /ready
	// 503 no connection to the controller
	// /?state=fialed
	// 400 state "fialed" (want one of error, failed, stuck, waiting, running, queued, settled, unsettled) not valid
}

// configs returns those of workers on a controller with applications, and on an
// empty machine.
func configs(apps ...string) (provisioner.Config, containersetup.Config) {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	for _, app := range apps {
		controller.AddApplication(app, fakes.App{})
	}
	host := fakes.NewHost(faults)
	return provisioner.Config{
			Facade:          controller,
			OperatorManager: fakes.NewManager(faults),
			Agent:           fakes.NewAgent(controller.CACert()),
			ModelUUID:       fakes.ModelUUID,
			Clock:           clock.WallClock,
		}, containersetup.Config{
			Facade:    fakes.NewMachine(faults, "0"),
			MachineID: "0",
			Backends:  host.Backends(containersetup.LXD),
			Lock:      host.Lock(), Network: host.Network(), Bridger: host.Bridger(),
			Clock: clock.WallClock,
		}
}

// start starts both workers, and returns what ends them.
func start(operators provisioner.Config, setup containersetup.Config) (stop func()) {
	first, err := provisioner.New(operators)
	if err != nil {
		panic(err)
	}
	second, err := containersetup.New(setup)
	if err != nil {
		panic(err)
	}
	return func() {
		for _, w := range []worker.Worker{first, second} {
			_ = worker.Stop(w)
		}
	}
}

// ask reads from the socket in dir until the answer has the text.
func ask(dir, target, text string) string {
	var dialer net.Dialer
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", filepath.Join(dir, "introspection.sock"))
		},
	}}
	defer client.CloseIdleConnections()
	for {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://localhost"+target, nil)
		if err != nil {
			return err.Error()
		}
		answer, err := client.Do(request)
		if err != nil {
			return err.Error()
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if strings.Contains(string(body), text) {
			return string(body)
		}
		time.Sleep(time.Millisecond)
	}
}
