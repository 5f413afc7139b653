package containerprovisioner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// The user data of the fakes has a canary in it. It reaches the broker, and
// nothing that anybody can read.
func TestSecretsAreSeenByTheBrokerAlone(t *testing.T) {
	faults := map[string]fakes.Effect{
		"nothing": {}, "errors": {Err: boom}, "panics": {Panic: "boom"}, "time-outs": {Delay: time.Hour},
		"nonsense": {Answer: fakes.Return(nil)},
	}
	for name, effect := range faults {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.OnCall(func(c fakes.Call) fakes.Effect {
					if c.N%3 == 0 && !c.Item && !strings.HasPrefix(c.Method, "Watch") {
						return effect
					}
					return fakes.Effect{}
				})
				eventful(w)
				bad := fakes.ContainerInfo("0/lxd/8")
				bad.Base = facade.Base{}
				w.machine.AddContainer("0/lxd/8", fakes.Container{Info: bad})
				report := fmt.Sprint(w.worker.Report())
				w.after(time.Hour)
				report += fmt.Sprint(w.worker.Report())

				if name == "nothing" {
					params, ok := w.host.Params("0/lxd/1")
					if !ok || !strings.Contains(params.Info.UserData.Reveal(), "canary") {
						t.Error("the broker did not get the user data")
					}
				}
				seen := map[string]string{"the log": w.log.Text(), "the report": report}
				for _, id := range w.machine.IDs() {
					seen["the statuses"] += fmt.Sprint(w.machine.Statuses(id))
					for _, pass := range w.passes.of(id) {
						seen["the metrics"] += fmt.Sprintf("%+v ", pass)
					}
				}
				for where, text := range seen {
					if text == "" {
						t.Errorf("nothing is in %s", where)
					}
					for _, secret := range []string{"canary", "cloud-config", "nonce-of"} {
						if strings.Contains(text, secret) {
							t.Errorf("%q is in %s:\n%s", secret, where, text)
						}
					}
				}
			})
		})
	}
}
