package contenders_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/bench/contenders"
	"github.com/sutler-dev/sutler/bench/worlds"
	"github.com/sutler-dev/sutler/fakes"
)

func TestContendersHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range contenders.All() {
		if c.Name() == "" || seen[c.Name()] {
			t.Errorf("%q is no name of its own", c.Name())
		}
		seen[c.Name()] = true
	}
}

func TestContendersRefuseHalfAWorld(t *testing.T) {
	whole := worlds.NewFake(0).World()
	worldsThatLack := map[string]func(*contenders.World){
		"Facade":  func(w *contenders.World) { w.Facade = nil },
		"Manager": func(w *contenders.World) { w.Manager = nil },
		"Agent":   func(w *contenders.World) { w.Agent = nil },
	}
	for _, c := range contenders.All() {
		for field, take := range worldsThatLack {
			w := whole
			take(&w)
			if _, err := c.Start(w); !errors.Is(err, errors.NotValid) {
				t.Errorf("%s without %s: %v, want NotValid", c.Name(), field, err)
			}
		}
	}
}

// A contender is only as fair as the work is the same: all make the same calls,
// and sutler stages besides.
func TestContendersDoTheSameWork(t *testing.T) {
	for _, c := range contenders.All() {
		synctest.Test(t, func(t *testing.T) {
			f := worlds.NewFake(time.Millisecond)
			running, err := c.Start(f.World())
			if err != nil {
				t.Fatal(err)
			}
			<-f.Add("mysql")
			time.Sleep(time.Hour)
			running.Kill()
			if err := running.Wait(); err != nil {
				t.Error(err)
			}
			staged := 0
			if c.Name() == (contenders.Sutler{}).Name() {
				staged = 1
			}
			for method, want := range map[string]int{
				"Life": 1, "CharmInfo": 1, "OperatorExists": 1, "Operator": 1, "OperatorProvisioningInfo": 1,
				"IssueOperatorCertificate": 1, "StageOperator": staged, "EnsureOperator": 1,
			} {
				if got := f.Faults.Count(method, "mysql"); got != want {
					t.Errorf("%s: %d calls of %s, want %d", c.Name(), got, method, want)
				}
			}
			if got := f.Faults.Count("SetPasswords", ""); got != 1 {
				t.Errorf("%s: %d calls of SetPasswords, want 1", c.Name(), got)
			}
		})
	}
}

// What fails for ever is not tried without a pause, by anybody.
func TestContendersBackOff(t *testing.T) {
	for _, c := range contenders.All() {
		synctest.Test(t, func(t *testing.T) {
			f := worlds.NewFake(time.Millisecond)
			f.Befall("EnsureOperator", "mysql", fakes.Effect{Err: errors.ConstError("boom")})
			running, err := c.Start(f.World())
			if err != nil {
				t.Fatal(err)
			}
			f.Add("mysql")
			time.Sleep(time.Hour)
			running.Kill()
			if err := running.Wait(); err != nil {
				t.Error(err)
			}
			// The loop tries three times within some four seconds, for ever.
			if n := f.Faults.Count("EnsureOperator", "mysql"); n < 5 || n > 3600 {
				t.Errorf("%s: %d attempts in an hour", c.Name(), n)
			}
		})
	}
}
