package outside

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

// An application that takes its time is seen meanwhile, and whatever is asked
// touches nothing: each operator is ensured as if nobody looked.
func TestAnApplicationIsSeenWhileItSettles(t *testing.T) {
	dir := t.TempDir()
	o := open(t, Config{})
	serve(t, o, dir, "")
	faults, gate := fakes.NewFaults(clock.WallClock), fakes.NewGate()
	faults.Add(fakes.Rule{Method: "EnsureOperator", Key: "slow", Effect: fakes.Effect{Gate: gate}})
	controller, manager := fakes.NewController(faults), fakes.NewManager(faults)
	for _, app := range []string{"quick", "slow"} {
		controller.AddApplication(app, fakes.App{})
	}
	w, err := provisioner.New(provisioner.Config{
		// Plain, so that nothing but the controller has an application looked at.
		Facade: controller.Plain(), OperatorManager: manager.Plain(), Agent: fakes.NewAgent(controller.CACert()),
		ModelUUID: fakes.ModelUUID, Clock: clock.WallClock, Metrics: o.Operators(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Stop(w) })
	<-gate.Arrived()

	sees(t, dir, "settled", 1)
	sees(t, dir, "running", 1)
	if got := fetch(t, dir, "/?state=running"); !strings.Contains(got, "slow") || strings.Contains(got, "quick") {
		t.Errorf("the page of what is running has not just slow:\n%s", got)
	}
	for _, text := range []string{
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nslow=dead",
		"DELETE /report HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /?app=slow&life=dead HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"quick slow\x00\r\n\r\n",
	} {
		if answer := say(t, dir, text); !strings.HasPrefix(answer, "HTTP/1.1 4") {
			t.Errorf("%q is answered with %q", text, answer)
		}
	}
	sees(t, dir, "running", 1)

	gate.Release()
	sees(t, dir, "settled", 2)
	for _, app := range []string{"quick", "slow"} {
		if n := faults.Count("EnsureOperator", app); n != 1 {
			t.Errorf("the operator of %s was ensured %d times, want once", app, n)
		}
	}
}

// sees waits until the metrics have that many applications in a state.
func sees(t *testing.T, dir, state string, n int) {
	t.Helper()
	want := fmt.Sprintf("\nsutler_operator_applications{state=%q} %d\n", state, n)
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		got := fetch(t, dir, "/metrics")
		if strings.Contains(got, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the metrics have no %q:\n%s", want, got)
		}
	}
}

// say returns the beginning of the answer to what is said as it is.
func say(t *testing.T, dir, text string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, text)
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer[:n])
}

func TestNothingListensAfterTheEnd(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, open(t, Config{}), dir, "127.0.0.1:0")
	address := strings.TrimSuffix(strings.TrimPrefix(s.URLs()[0], "http://"), "/")
	if err := worker.Stop(s); err != nil {
		t.Fatal(err)
	}
	for network, address := range map[string]string{"tcp": address, "unix": filepath.Join(dir, SocketName)} {
		if conn, err := (&net.Dialer{}).DialContext(t.Context(), network, address); err == nil {
			_ = conn.Close()
			t.Errorf("somebody listens on %s", address)
		}
	}
}
