package page

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe/internal/need"
	"github.com/sutler-dev/sutler/provisioner"
)

var update = flag.Bool("update", false, "take the pictures in docs/observe anew")

// pictures is where they are.
const pictures = "../../docs/observe"

// browser looks at pages with Chromium.
type browser struct {
	testing.TB
	profile string
}

// newBrowser skips or fails the test where there is none, as package need does.
func newBrowser(t testing.TB) *browser {
	t.Helper()
	need.Program(t, "chromium")
	return &browser{t, t.TempDir()}
}

// run opens an address and returns what Chromium writes, and what pages wrote to
// their consoles.
func (b *browser) run(address string, args ...string) (stdout string, console []string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	args = append([]string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
		"--user-data-dir=" + b.profile, "--enable-logging=stderr", "--v=0",
	}, args...)
	cmd := exec.CommandContext(ctx, "chromium", append(args, address)...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		b.Fatalf("chromium %s: %v\n%s", address, err, log.String())
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, ":CONSOLE") {
			console = append(console, strings.TrimSpace(line))
		}
	}
	return out.String(), console
}

// dom returns the page as the browser has it, and wants nothing on its console,
// where violations of the policy would be.
func (b *browser) dom(address string, args ...string) string {
	b.Helper()
	dom, console := b.run(address, append([]string{"--dump-dom"}, args...)...)
	if len(console) > 0 {
		b.Errorf("%s: on the console: %s", address, strings.Join(console, "\n"))
	}
	return dom
}

// picture takes one, into the documentation with -update.
func (b *browser) picture(name, address string, width, height int, args ...string) {
	b.Helper()
	dir := b.TempDir()
	if *update {
		if err := os.MkdirAll(pictures, 0o755); err != nil {
			b.Fatal(err)
		}
		var err error
		if dir, err = filepath.Abs(pictures); err != nil {
			b.Fatal(err)
		}
	}
	file := filepath.Join(dir, name)
	_, console := b.run(address, append([]string{
		"--screenshot=" + file, fmt.Sprintf("--window-size=%d,%d", width, height),
	}, args...)...)
	if len(console) > 0 {
		b.Errorf("%s: on the console: %s", address, strings.Join(console, "\n"))
	}
	content, err := os.ReadFile(file)
	if err != nil || len(content) < 10_000 || !bytes.HasPrefix(content, []byte("\x89PNG")) {
		b.Errorf("%s: %d bytes, %v; want a picture", name, len(content), err)
	}
}

// inTheMorning is a world with one of each trouble, in real time, seen as at a
// quarter to ten on a clock's hands.
func inTheMorning(t testing.TB) *world {
	h := newHands(time.Date(2026, 11, 30, 9, 30, 0, 0, time.UTC))
	w := newWorld(t, h)
	w.config.Title = "agent on machine 0"
	w.config.Metrics = http.NotFoundHandler()
	late := func(_ time.Duration, attempt int) time.Duration { return time.Duration(attempt+1) * 37 * time.Second }
	fails := func(method, key, why string) {
		w.faults.Add(fakes.Rule{Method: method, Key: key, Times: fakes.Always, Effect: fakes.Effect{Err: errors.New(why)}})
	}
	names := []string{"grafana", "keycloak", "nats", "postgresql", "prometheus", "rabbitmq", "redis", "traefik"}
	for n := range 120 {
		names = append(names, fmt.Sprintf("web%03d", n))
	}
	for _, name := range names {
		w.controller.AddApplication(name, fakes.App{})
	}
	apps := w.operators(fakes.ModelUUID, func(c *provisioner.Config) {
		c.Backoff, c.TerminationPoll = late, 40*time.Second
	})
	w.eventually("all settled", func() bool {
		return apps.Status().Applications[provisioner.StateSettled] == len(names)
	})
	is := func(app string, state provisioner.State, attempts int) {
		t.Helper()
		w.eventually(app, func() bool {
			for _, a := range apps.Applications() {
				if a.Name == app {
					return a.State == state && a.Attempts >= attempts
				}
			}
			return false
		})
	}

	fails("StartInstance", "0/lxd/3", "image ubuntu@24.04 for amd64 not found")
	for n := range 4 {
		w.machine.AddContainer(fmt.Sprintf("0/lxd/%d", n), fakes.Container{})
	}
	w.machine.AddContainer("0/kvm/0", fakes.Container{})
	fails("Initialise", string(kvm), "installing qemu-system-x86: dpkg was interrupted; run dpkg --configure -a")
	w.setup(func(c *containersetup.Config) {
		c.Backoff = late
		c.NewProvisioner = func(config containerprovisioner.Config) (worker.Worker, error) {
			config.Backoff = late
			return containerprovisioner.New(config)
		}
	})
	w.eventually("containers", func() bool {
		body := w.get("/?kind=container", http.StatusOK)
		return strings.Contains(body, "<b>3</b> settled") && strings.Contains(body, "(9 left)") && strings.Contains(body, "dpkg")
	})

	h.turn(11 * time.Minute)
	w.manager.SetTermination(fakes.Termination{Forever: true}, "redis")
	w.controller.SetLife("redis", facade.Dead)
	is("redis", provisioner.StateWaiting, 0)
	h.turn(100 * time.Second)
	fails("EnsureOperator", "mysql", "storage class fast-ssd: quota of 40 volumes is used up")
	w.controller.AddApplication("mysql", fakes.App{})
	for n := range 4 {
		is("mysql", provisioner.StateFailed, n+1)
		w.look()
		if err := apps.Trigger("mysql"); err != nil {
			t.Fatal(err)
		}
		h.turn(19 * time.Second)
	}
	is("mysql", provisioner.StateFailed, 5)
	info := fakes.Info()
	info.CharmStorage = &facade.CharmStorage{StorageName: "charm", Size: 1024, Provider: "<b>tape</b>"}
	w.controller.AddApplication("vault", fakes.App{Info: info})
	is("vault", provisioner.StateFailed, 1)
	w.controller.AddApplication("wordpress", fakes.App{})
	w.controller.RemoveCharm("wordpress")
	h.turn(100 * time.Second)
	if err := apps.Trigger("redis"); err != nil {
		t.Fatal(err)
	}
	is("redis", provisioner.StateStuck, 0)
	h.turn(13 * time.Second)
	h.stop()
	return w
}

// What is seen here is seen without any script: the page's policy lets none run, as
// the other test shows, and Chromium's own way to disable them disables --dump-dom,
// too.
func TestBrowserShowsThePage(t *testing.T) {
	b := newBrowser(t)
	w := inTheMorning(t)
	defer w.stop()
	server := httptest.NewServer(w.look())
	defer server.Close()

	b.picture("page.png", server.URL+"/", 1280, 960)
	b.picture("page-dark.png", server.URL+"/?state=unsettled", 1280, 960, "--blink-settings=preferredColorScheme=0")
	b.picture("page-phone.png", server.URL+"/?state=unsettled", 500, 1500)

	dom := b.dom(server.URL + "/")
	w.shows(dom, "5 of 135 not settled", ">vault<", "&lt;b&gt;tape&lt;/b&gt;", "1 to 100 of 135 in all")
	if names := rowNames(dom); len(names) != 100 || !slices.Equal(names[:5], []string{"vault", "mysql", "0/lxd/3", "redis", "wordpress"}) {
		t.Errorf("%d rows, the first are %v", len(names), names[:min(len(names), 5)])
	}
	// Links are followed as somebody does who clicks on them.
	address := server.URL + "/"
	click := func(pattern string, want ...string) string {
		t.Helper()
		found := regexp.MustCompile(`<a [^>]*href="([^"]*)"[^>]*>` + pattern).FindStringSubmatch(dom)
		if found == nil {
			t.Fatalf("no link %s in\n%s", pattern, dom)
		}
		base, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		next, err := base.Parse(html.UnescapeString(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		address = next.String()
		dom = b.dom(address)
		if names := rowNames(dom); want != nil && !slices.Equal(names, want) {
			t.Errorf("%s: rows %v, want %v", address, names, want)
		}
		return dom
	}
	click(`<b>\d+</b> stuck`, "redis")
	click(`<b>\d+</b> not settled`, "vault", "mysql", "0/lxd/3", "redis", "wordpress")
	click(`Name</a>`, "0/lxd/3", "mysql", "redis", "vault", "wordpress")
	click(`Show all</a>`)
	click(`next</a>`)
	w.shows(dom, "101 to 135 of 135", `page 2 of 2`)
	click(`10 s</a>`)
	w.shows(dom, `http-equiv="refresh"`, "101 to 135 of 135")
	click(`off</a>`)
	w.hides(dom, "http-equiv")
}

// No script can run under the page's policy. And a violation of it is seen on the
// console, or else its absence would show nothing.
func TestBrowserReportsViolationsOfThePolicy(t *testing.T) {
	b := newBrowser(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<body style="color: red"><script>document.body.textContent = "owned"</script>text</body>`))
	}))
	defer server.Close()
	dom, console := b.run(server.URL, "--dump-dom")
	if len(console) == 0 || strings.Contains(dom, ">owned") {
		t.Errorf("on the console: %q; the page is %s", console, dom)
	}
}

// rowNames are the names in the list of a page, in order.
func rowNames(dom string) (names []string) {
	list := dom[strings.Index(dom, `aria-labelledby="list"`):strings.Index(dom, `aria-labelledby="workers"`)]
	for _, found := range regexp.MustCompile(`rowheader">([^<]*)<`).FindAllStringSubmatch(list, -1) {
		names = append(names, found[1])
	}
	return names
}
