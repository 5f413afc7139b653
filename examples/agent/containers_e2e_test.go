package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/examples/agent/internal/box"
)

// expectBoxes waits until these containers, and no others that are boxes, run
// and answer. It returns their pids.
func (w *world) expectBoxes(ids ...string) map[string]int {
	w.t.Helper()
	pids := map[string]int{}
	eventually(w.t, fmt.Sprintf("boxes: %v", ids), func() bool {
		s, ok := w.report()
		clear(pids)
		for id, c := range s.Manifolds.Controller.Report.Containers {
			if !strings.Contains(id, "/box/") {
				continue
			}
			answer, err := box.Ask(w.t.Context(), w.path(".agent/boxes/"+c.Instance))
			ok = ok && c.State == "running" && len(c.Addresses) == 1 && err == nil && answer.Container == id
			pids[id] = answer.PID
		}
		return ok && slices.Equal(slices.Sorted(maps.Keys(pids)), ids)
	})
	return pids
}

func (w *world) message(id string) string {
	w.t.Helper()
	s, _ := w.report()
	return s.Manifolds.Controller.Report.Containers[id].Message
}

func TestModelWithoutAMachineHasNoContainerSide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "db")
	w.write("containers/0-box-0.yaml", "")
	w.start()
	w.expectActive("db")
	s, _ := w.report()
	if s.Manifolds.ContainerSetup != nil || len(s.Manifolds.Controller.Report.Containers) > 0 {
		t.Errorf("got %+v", s)
	}
	for _, file := range []string{"boxes", "machine-lock", "containers.yaml"} {
		if _, err := os.Stat(w.path(".agent/" + file)); !os.IsNotExist(err) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestMachineThatCanHaveNoContainersSaysSoAndKeepsOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "db")
	w.write("machine.yaml", "id: 0\ncontainers: []\n")
	w.write("containers/0-box-0.yaml", "")
	w.start()
	w.expectActive("db")
	eventually(t, "told, and the worker is gone", func() bool {
		s, _ := w.report()
		return strings.Contains(w.message("0/box/0"), "this machine supports none") && s.Manifolds.ContainerSetup == nil
	})
}

func TestContainersOfTypesWithoutABackEndSayWhyAndDisturbNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "db")
	w.write("machine.yaml", "id: 0\ncontainers: [zone, box]\n")
	w.write("containers/0-lxd-0.yaml", "")
	w.write("containers/0-zone-0.yaml", "life: alive\n")
	w.start()
	before := w.expectActive("db")
	for id, want := range map[string]string{
		"0/zone/0": "zone containers cannot be had on this machine: no back end for zone in this agent",
		"0/lxd/0":  "lxd containers cannot be had on this machine: this machine supports zone, box",
	} {
		eventually(t, want, func() bool { return w.message(id) == want })
	}
	// A box can be had beside.
	w.write("containers/0-box-0.yaml", "")
	w.expectBoxes("0/box/0")
	// Asking again for what cannot be had leaves the reason in place.
	w.write("containers/0-zone-0.yaml", "retry: 1\n")
	w.write("containers/0-box-1.yaml", "")
	w.expectBoxes("0/box/0", "0/box/1")
	if got := w.message("0/zone/0"); !strings.Contains(got, "no back end") {
		t.Errorf("got %q", got)
	}
	if after := w.expectActive("db"); after["db"] != before["db"] {
		t.Error("the operator was started again")
	}
	// A new start finds all of it as it was.
	boxes := w.expectBoxes("0/box/0", "0/box/1")
	w.end(syscall.SIGKILL)
	w.start()
	if after := w.expectBoxes("0/box/0", "0/box/1"); !maps.Equal(after, boxes) {
		t.Errorf("got %v, then %v", boxes, after)
	}
	eventually(t, "told again", func() bool { return strings.Contains(w.message("0/zone/0"), "no back end") })
}

func TestKilledAgentLeavesBoxesThatTheNextOneAdopts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("machine.yaml", "id: 0\ncontainers: [box]\nsettings: {box: {stop-timeout: 1s}}\n")
	for i := range 3 {
		w.write(fmt.Sprintf("containers/0-box-%d.yaml", i), "user-data: secret-canary\n")
	}
	w.start()
	before := w.expectBoxes("0/box/0", "0/box/1", "0/box/2")
	prepared, err := os.ReadFile(w.path(".agent/boxes/prepared.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.end(syscall.SIGKILL)

	// Meanwhile, one becomes dead, one is killed, and one comes.
	w.write("containers/0-box-1.yaml", "life: dead\n")
	if err := syscall.Kill(before["0/box/2"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.write("containers/0-box-3.yaml", "")
	w.start()
	after := w.expectBoxes("0/box/0", "0/box/2", "0/box/3")
	if after["0/box/0"] != before["0/box/0"] {
		t.Errorf("not adopted: %v, then %v", before, after)
	}
	if after["0/box/2"] == before["0/box/2"] {
		t.Error("the killed one has the same process")
	}
	eventually(t, "the dead one is removed", func() bool {
		left, err := filepath.Glob(w.path(".agent/boxes/*-box-1"))
		_, statErr := os.Stat(w.path(".agent/removed/0-box-1.yaml"))
		return err == nil && len(left) == 0 && statErr == nil && syscall.Kill(before["0/box/1"], 0) != nil
	})
	if again, err := os.ReadFile(w.path(".agent/boxes/prepared.yaml")); err != nil || string(again) != string(prepared) {
		t.Errorf("prepared again: %q, %v", again, err)
	}
	if code := w.end(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d", code)
	}
	if left := processesUnder(t, w.dir); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	log, err := os.ReadFile(w.logPath)
	if err != nil || strings.Contains(string(log), "canary") {
		t.Errorf("user data is in the log, or %v", err)
	}

	// What was switched off is switched on again.
	w.start()
	w.expectBoxes("0/box/0", "0/box/2", "0/box/3")
}

func TestBoxesAreKeptWhenAskedForAndWorkInALongDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dir = filepath.Join(w.dir, strings.Repeat("a-long-name-", 12))
	w.write("model.yaml", settings)
	w.write("machine.yaml", "id: 0\ncontainers: [box]\n")
	w.write("containers/0-box-0.yaml", "")
	w.start("--keep-operators")
	before := w.expectBoxes("0/box/0")
	if code := w.end(syscall.SIGINT); code != 0 {
		t.Errorf("got exit code %d", code)
	}
	if err := syscall.Kill(before["0/box/0"], 0); err != nil {
		t.Errorf("the box: %v", err)
	}
	w.start()
	if after := w.expectBoxes("0/box/0"); !maps.Equal(after, before) {
		t.Error("not adopted")
	}
}

func TestMalformedContainerFileIsNamedAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "db")
	w.write("machine.yaml", "id: 0\ncontainers: [box]\n")
	w.write("containers/0-box-0.yaml", "life: alive\ncores: 3\n")
	w.write("containers/0-box-1.yaml", "")
	w.start()
	w.expectActive("db")
	const want = "containers/0-box-0.yaml:2: cores: unknown key (want one of life, base, image, image-sha256, bridge, constraints, user-data, retry)"
	eventually(t, "the problem is reported, and the other box runs", func() bool {
		s, _ := w.report()
		r := s.Manifolds.Controller.Report
		return slices.Equal(r.Problems, []string{want}) && r.Containers["0/box/1"].State == "running"
	})
	w.write("containers/0-box-0.yaml", "life: alive\n")
	w.expectBoxes("0/box/0", "0/box/1")
}

// TestAgentThatIsKilledAtAnyTimeHasEachBoxOnce kills agents while they prepare
// the machine, and make and remove boxes.
func TestAgentThatIsKilledAtAnyTimeHasEachBoxOnce(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	w.write("machine.yaml", "id: 0\ncontainers: [box]\n")
	life := map[int]string{}
	for range 12 {
		n := random.IntN(4)
		life[n] = []string{"alive", "alive", "dead"}[random.IntN(3)]
		w.write(fmt.Sprintf("containers/0-box-%d.yaml", n), "life: "+life[n]+"\n")
		w.start()
		// From before it has read anything until it has done everything.
		time.Sleep(time.Duration(random.IntN(600)) * time.Millisecond)
		w.end(syscall.SIGKILL)
	}
	var want []string
	for n := range 4 {
		if life[n] == "alive" {
			want = append(want, fmt.Sprintf("0/box/%d", n))
		}
	}
	w.start()
	w.expectBoxes(want...)
	var left []string
	var pids []int
	defer func() {
		if t.Failed() {
			t.Logf("left: %v, processes %v", left, pids)
		}
	}()
	eventually(t, "one process for each box, and nothing else", func() bool {
		entries, err := os.ReadDir(w.path(".agent/boxes"))
		left = nil
		for _, entry := range entries {
			left = append(left, entry.Name())
		}
		pids = processesUnder(t, w.path(".agent/boxes"))
		return err == nil && len(left) == len(want)+1 && len(pids) == len(want) // and prepared.yaml
	})
}
