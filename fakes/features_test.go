package fakes_test

import (
	"testing"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
)

func TestViewsHaveTheFeaturesChosenAndNoOthers(t *testing.T) {
	_, c, m := world("a")
	ctx := t.Context()
	check := func(f, one fakes.Features, what string, has bool) {
		t.Helper()
		if want := f&one != 0; has != want {
			t.Errorf("features %07b: %s: %t, want %t", f, what, has, want)
		}
	}
	for f := fakes.Features(0); f < 1<<7; f++ {
		apps, manager := c.With(f), m.With(f)
		_, has := apps.(facade.ProvisioningWatcher)
		check(f, fakes.ProvisioningEvents, "ProvisioningWatcher", has)
		_, has = apps.(facade.BulkApplications)
		check(f, fakes.BulkReads, "BulkApplications", has)
		_, has = apps.(facade.StatusSetter)
		check(f, fakes.StatusReports, "StatusSetter", has)
		_, has = manager.(operator.Watcher)
		check(f, fakes.Watching, "Watcher", has)
		_, has = manager.(operator.Lister)
		check(f, fakes.Listing, "Lister", has)
		_, has = manager.(operator.Stager)
		check(f, fakes.Staging, "Stager", has)
		_, has = manager.(operator.Glancer)
		check(f, fakes.Glancing, "Glancer", has)

		if life, err := apps.Life(ctx, "a"); err != nil || life != facade.Alive {
			t.Errorf("features %07b: Life = %v, %v", f, life, err)
		}
		if _, err := manager.OperatorExists(ctx, "a"); err != nil {
			t.Errorf("features %07b: OperatorExists: %v", f, err)
		}
	}
	if _, has := c.Plain().(facade.BulkApplications); has {
		t.Error("the plain controller has bulk reads")
	}
	if _, has := m.Plain().(operator.Stager); has {
		t.Error("the plain manager stages")
	}
	if _, has := m.Plain().(operator.Glancer); has {
		t.Error("the plain manager glances")
	}
}
