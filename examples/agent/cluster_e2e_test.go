package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gopkg.in/yaml.v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sutler-dev/sutler/examples/agent/internal/controller"
	"github.com/sutler-dev/sutler/examples/agent/internal/report"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
)

// The tests of this file run wherever there is an API server. Whether anything runs
// in the pods is for the demo to see, which needs a node.

// clusterWorld is a world whose operators are pods.
type clusterWorld struct {
	*world
	*kubetest.Cluster
	namespace string
	flags     []string // of every agent
}

func newClusterWorld(t *testing.T, apps ...string) *clusterWorld {
	t.Helper()
	t.Parallel()
	c := kubetest.Need(t)
	w := &clusterWorld{world: newWorld(t, apps...), Cluster: c, namespace: c.Namespace(t)}
	w.flags = []string{"--operators", "kubernetes", "--namespace", w.namespace, "--kubeconfig", c.Kubeconfig(t)}
	return w
}

// image is none that a node has: nothing here needs it to run.
var image = []string{"--image", "localhost/sutler-agent:none"}

func (w *clusterWorld) start() { w.world.start(append(w.flags, image...)...) }

// versions are those of all that agents write, by kind and name.
func (w *clusterWorld) versions() map[string]string {
	w.t.Helper()
	versions := map[string]string{}
	note := func(kind string, m metav1.ObjectMeta) {
		versions[kind+" "+m.Name] = string(m.UID) + " " + m.ResourceVersion
	}
	ctx, list := w.t.Context(), metav1.ListOptions{LabelSelector: "operator.juju.is/target=application"}
	sets, err := w.Client.AppsV1().StatefulSets(w.namespace).List(ctx, list)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range sets.Items {
		o.ResourceVersion = fmt.Sprint(o.Generation) // the rest is status
		note("set", o.ObjectMeta)
	}
	secrets, err := w.Client.CoreV1().Secrets(w.namespace).List(ctx, list)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range secrets.Items {
		note("secret", o.ObjectMeta)
	}
	return versions
}

// expectSets waits until these applications, and no others, have sets, and the
// controller has been told so since it was started.
func (w *clusterWorld) expectSets(apps ...string) {
	w.t.Helper()
	var want []string
	for _, app := range apps {
		want = append(want, "secret "+app+"-operator-config", "set "+app+"-operator")
	}
	slices.Sort(want)
	eventually(w.t, fmt.Sprintf("sets of %v", apps), func() bool {
		s, ok := w.report()
		for _, app := range apps {
			ok = ok && s.Manifolds.Controller.Report.Applications[app].Provisioning == "provisioned"
		}
		return ok && slices.Equal(slices.Sorted(maps.Keys(w.versions())), want)
	})
}

func TestKilledAgentLeavesPodsThatTheNextOneDoesNotTouch(t *testing.T) {
	w := newClusterWorld(t, "cache", "db")
	w.start()
	w.expectSets("cache", "db")
	hashes, before := w.hashes(), w.versions()
	w.end(syscall.SIGKILL)

	w.deploy("web")
	w.start()
	w.expectSets("cache", "db", "web")
	now := w.versions()
	for name, version := range before {
		if now[name] != version {
			t.Errorf("%s was %s and is %s", name, version, now[name])
		}
	}
	for app, hash := range hashes {
		if got := w.hashes()[app]; got != hash {
			t.Errorf("the password of %s changed", app)
		}
	}

	if err := os.RemoveAll(w.path("applications/db")); err != nil {
		t.Fatal(err)
	}
	w.expectSets("cache", "web")
	if code := w.end(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d", code)
	}
	// It was the agent that was stopped, and not the cluster.
	if got := len(w.versions()); got != 4 {
		t.Errorf("%d objects are left, want 4", got)
	}
}

// hashes are the lines of the passwords' file, by application.
func (w *clusterWorld) hashes() map[string]string {
	w.t.Helper()
	_, text := w.passwords()
	hashes := map[string]string{}
	for line := range strings.Lines(text) {
		app, hash, _ := strings.Cut(line, ":")
		hashes[app] = hash
	}
	return hashes
}

// join starts an agent that shares the controller, and returns a function that kills
// it.
func (w *clusterWorld) join(name string) (kill func()) {
	w.t.Helper()
	cmd := exec.Command(w.program, append(w.flags, "--model", w.dir, "--debug", "--join", name, "--leader-lease", "agents")...)
	log, err := os.OpenFile(w.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	w.t.Cleanup(kill)
	return kill
}

// leads tells whether the agent has a report that says that it leads.
func (w *clusterWorld) leads(name string) (leads, there bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), deadline)
	defer cancel()
	data, err := report.Fetch(ctx, controller.JoinedDir(w.path(".agent"), name))
	if err != nil {
		return false, false
	}
	var s state
	if err := yaml.Unmarshal(data, &s); err != nil {
		w.t.Fatal(err)
	}
	return s.Manifolds.Leader.State == "started", true
}

func TestAgentsThatShareAControllerTakeOverFromEachOther(t *testing.T) {
	w := newClusterWorld(t, "cache", "db")
	w.world.startProgram(append([]string{"controller"}, image...)...)
	eventually(t, "a controller to join", func() bool {
		_, err := os.Stat(filepath.Join(w.path(".agent"), "facade.sock"))
		return err == nil
	})
	kill := w.join("one")
	eventually(t, "one leads", func() bool { leads, _ := w.leads("one"); return leads })
	w.join("two")
	w.expectSets("cache", "db")
	eventually(t, "two waits", func() bool { leads, there := w.leads("two"); return there && !leads })
	hashes, before := w.hashes(), w.versions()

	kill()
	eventually(t, "two leads", func() bool { leads, _ := w.leads("two"); return leads })
	w.deploy("web")
	w.expectSets("cache", "db", "web")
	now := w.versions()
	for name, version := range before {
		if now[name] != version {
			t.Errorf("%s was %s and is %s", name, version, now[name])
		}
	}
	for app, hash := range hashes {
		if got := w.hashes()[app]; got != hash {
			t.Errorf("the password of %s changed", app)
		}
	}

	// A controller that is started anew finds the agent again.
	w.end(syscall.SIGKILL)
	w.deploy("queue")
	w.world.startProgram(append([]string{"controller"}, image...)...)
	w.expectSets("cache", "db", "queue", "web")
}

func TestWhatAClusterLacksIsOneLine(t *testing.T) {
	w := newClusterWorld(t)
	powerless := kubetest.KubeconfigFor(t, w.ServiceAccount(t, w.namespace, "powerless"))
	for name, test := range map[string]struct {
		namespace, kubeconfig, want string
	}{
		"no namespace": {w.namespace + "-none", w.Kubeconfig(t), `agent: namespace "` + w.namespace + `-none" in the cluster not found`},
		"no rights":    {w.namespace, powerless, "agent: operators as pods: statefulsets.apps is forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--model", w.dir, "--operators", "kubernetes", "--namespace", test.namespace, "--kubeconfig", test.kubeconfig}, image...)
			out, err := exec.CommandContext(t.Context(), w.program, args...).CombinedOutput()
			if err == nil || !strings.HasPrefix(string(out), test.want) || strings.Count(string(out), "\n") != 1 {
				t.Errorf("got %v and\n%s\nwant %s", err, out, test.want)
			}
		})
	}
}
