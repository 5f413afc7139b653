package kvm_test

import (
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/kvmtest"
)

func TestMachineIsStartedAndStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kvmtest.Private(t))
	broker := w.prepared()
	result := w.started(broker, "0/kvm/0")
	t.Logf("%+v", result)
	list, err := broker.AllInstances(t.Context())
	t.Log(list, err)
	out, _ := w.virsh("list", "--all")
	t.Log(out)
	if errs := broker.StopInstances(t.Context(), result.InstanceID); errs[0] != nil {
		t.Error(errs[0])
	}
	list, err = broker.AllInstances(t.Context())
	t.Log(list, err)
	t.Log(w.steps.text())
}
