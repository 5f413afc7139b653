package dashshot_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/juju/clock"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe/internal/need"
	"github.com/sutler-dev/sutler/observe/prometheus"
	"github.com/sutler-dev/sutler/observe/prometheus/internal/dashboard"
	"github.com/sutler-dev/sutler/observe/prometheus/internal/dashshot"
	"github.com/sutler-dev/sutler/provisioner"
)

var picture = flag.Bool("picture", false, "draw docs/observe/dashboard.png, with chromium")

// serve starts a Prometheus server on data, which is stopped at the end.
func serve(t *testing.T, data, config string) dashshot.Client {
	t.Helper()
	program := need.Program(t, "prometheus")
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// Somebody else may take a port that was free a moment ago.
	for range 5 {
		if c, ok := tryServe(t, program, data, file); ok {
			return c
		}
	}
	t.Fatal("the server did not start")
	return dashshot.Client{}
}

func tryServe(t *testing.T, program, data, file string) (dashshot.Client, bool) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	// What was recorded is from the year in which virtual time starts.
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+data,
		"--storage.tsdb.retention.time=100y", "--web.listen-address="+address)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	c := dashshot.Client{URL: "http://" + address}
	deadline := time.Now().Add(time.Minute)
	for c.Ready(t.Context()) != nil {
		select {
		case err := <-ended:
			t.Logf("the server ended: %v\n%s", err, log.String())
			return c, false
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			<-ended
			t.Fatalf("the server is not ready:\n%s", log.String())
		}
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return c, true
}

// poll waits until check returns nil.
func poll(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestEveryPanelOfTheDashboardHasData(t *testing.T) {
	tool := need.Program(t, "promtool")
	need.Program(t, "prometheus")
	recording, began := play(t)
	dir := t.TempDir()
	text, data := filepath.Join(dir, "recording.txt"), filepath.Join(dir, "data")
	file, err := os.OpenFile(text, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := recording.Write(file); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool, "tsdb", "create-blocks-from", "openmetrics", text, data).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}

	server := serve(t, data, "global: {}\n")
	content, err := os.ReadFile("../../dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := dashboard.Parse(content)
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[int][]dashshot.Line)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			expr := resolve(target.Expr)
			series, err := server.Range(t.Context(), expr, began, began.Add(hour), step)
			if err != nil {
				t.Errorf("%q: %v", p.Title, err)
			}
			if len(series) == 0 {
				t.Errorf("%q has no data for %s", p.Title, expr)
			}
			for _, s := range series {
				shown[p.ID] = append(shown[p.ID], dashshot.Line{Name: dashshot.Legend(target.Legend, s.Labels), Points: s.Points})
			}
		}
	}
	if *picture && !t.Failed() {
		draw(t, dashshot.Draw(d, shown, began, began.Add(hour)))
	}
}

// resolve puts values in the place of variables, as Grafana does.
func resolve(expr string) string {
	return strings.NewReplacer("$job", ".*", "$instance", ".*", "$__rate_interval", "2m").Replace(expr)
}

// draw makes the picture of a page.
func draw(t *testing.T, page dashshot.Page) {
	t.Helper()
	chromium := need.Program(t, "chromium")
	dir := t.TempDir()
	html := filepath.Join(dir, "dashboard.html")
	if err := os.WriteFile(html, []byte(page.HTML), 0o600); err != nil {
		t.Fatal(err)
	}
	png, err := filepath.Abs("../../../../docs/observe/dashboard.png")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--screenshot="+png,
		fmt.Sprintf("--window-size=%d,%d", page.Width, page.Height), "file://"+html)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, out)
	}
}

// A real server scrapes a real agent, with the real rules.
func TestPrometheusScrapesAnAgentAndEvaluatesTheRules(t *testing.T) {
	need.Program(t, "prometheus")
	registry := client.NewPedanticRegistry()
	metrics, err := prometheus.New(prometheus.Config{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	controller.AddApplication("mysql", fakes.App{})
	w, err := provisioner.New(provisioner.Config{
		Facade: controller, OperatorManager: fakes.NewManager(faults), Agent: fakes.NewAgent(controller.CACert()),
		ModelUUID: fakes.ModelUUID, Clock: clock.WallClock, Metrics: metrics.Operators(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		w.Kill()
		if err := w.Wait(); err != nil {
			t.Error(err)
		}
	}()
	agent := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	defer agent.Close()
	rules, err := filepath.Abs("../../rules")
	if err != nil {
		t.Fatal(err)
	}

	server := serve(t, filepath.Join(t.TempDir(), "data"), fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["%s/*.yaml"]
scrape_configs:
  - job_name: agent
    static_configs: [{targets: ["%s"]}]
`, rules, strings.TrimPrefix(agent.URL, "http://")))
	poll(t, func() error {
		now := time.Now()
		for _, expr := range []string{
			`up{job="agent"} == 1`, `sutler_operator_applications{state="settled"} == 1`,
			`sutler:operator_oldest_unsettled:age_seconds == 0`,
		} {
			series, err := server.Range(t.Context(), expr, now, now, time.Second)
			if err != nil {
				return err
			}
			if len(series) != 1 {
				return fmt.Errorf("%s: not yet", expr)
			}
		}
		broken, total, err := server.Rules(t.Context())
		if err != nil {
			return err
		}
		if total < 40 || len(broken) > 0 {
			return fmt.Errorf("of %d rules, these are not evaluated: %v", total, broken)
		}
		return nil
	})
}
