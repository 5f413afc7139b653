package fakes_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

func TestApplicationsAreCompleteByDefault(t *testing.T) {
	_, c, _ := world("a")
	ctx := t.Context()
	if life, err := c.Life(ctx, "a"); err != nil || life != facade.Alive {
		t.Errorf("Life = %v, %v", life, err)
	}
	if charm, err := c.CharmInfo(ctx, "a"); err != nil || charm.Format() != 1 {
		t.Errorf("CharmInfo = %v, %v", charm, err)
	}
	if info, err := c.OperatorProvisioningInfo(ctx, "a"); err != nil || info.Validate() != nil {
		t.Errorf("OperatorProvisioningInfo = %v, %v", info, err)
	}
	if got := fakes.Charm(2).Format(); got != 2 {
		t.Errorf("Charm(2) has format %d", got)
	}
	c.AddApplication("b", fakes.App{Life: facade.Dying, Charm: fakes.Charm(2)})
	infos, err := c.ApplicationsInfo(ctx, []string{"b", "a"})
	if err != nil || infos[0] != (facade.ApplicationInfo{Name: "b", Life: facade.Dying, Format: 2}) ||
		infos[1] != (facade.ApplicationInfo{Name: "a", Life: facade.Alive, Format: 1}) {
		t.Errorf("ApplicationsInfo = %+v, %v", infos, err)
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	_, c, _ := world("a")
	c.RemoveApplication("a")
	c.RemoveApplication("a")
	ctx := t.Context()
	for name, err := range map[string]error{
		"Life":                     second(c.Life(ctx, "a")),
		"CharmInfo":                second(c.CharmInfo(ctx, "a")),
		"OperatorProvisioningInfo": second(c.OperatorProvisioningInfo(ctx, "a")),
		"IssueOperatorCertificate": second(c.IssueOperatorCertificate(ctx, "a")),
		"SetProvisioningStatus":    c.SetProvisioningStatus(ctx, "a", facade.StatusError, "m"),
	} {
		if !errors.Is(err, errors.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The test's own hand finds nothing to change, and says so by doing
	// nothing.
	c.SetLife("a", facade.Dead)
	c.SetInfo("a", fakes.Info())
	c.SetCharm("a", fakes.Charm(2))
	c.RemoveCharm("a")
	if _, ok := c.Password("a"); ok || c.PasswordChanges("a") != 0 || c.Status("a") != (fakes.Status{}) {
		t.Error("there is something")
	}
}

func second[T any](_ T, err error) error { return err }

func TestChangesShowInTheAnswers(t *testing.T) {
	_, c, _ := world("a")
	ctx := t.Context()
	c.SetLife("a", "undead")
	if life, _ := c.Life(ctx, "a"); life != "undead" {
		t.Errorf("life %q", life)
	}
	c.RemoveCharm("a")
	if _, err := c.CharmInfo(ctx, "a"); !errors.Is(err, errors.NotFound) {
		t.Errorf("CharmInfo: %v", err)
	}
	if infos, _ := c.ApplicationsInfo(ctx, []string{"a"}); !errors.Is(infos[0].FormatErr, errors.NotFound) || infos[0].Err != nil {
		t.Errorf("ApplicationsInfo: %+v", infos)
	}
	c.SetCharm("a", fakes.Charm(2))
	if charm, err := c.CharmInfo(ctx, "a"); err != nil || charm.Format() != 2 {
		t.Errorf("CharmInfo = %v, %v", charm, err)
	}
	c.SetInfo("a", facade.OperatorProvisioningInfo{CharmStorage: &facade.CharmStorage{}})
	if info, err := c.OperatorProvisioningInfo(ctx, "a"); err != nil || info.CharmStorage == nil || info.Validate() == nil {
		t.Errorf("OperatorProvisioningInfo = %v, %v", info, err)
	}
}

func TestAnswersAreTheCallersOwn(t *testing.T) {
	_, c, _ := world()
	info := fakes.Info()
	info.CharmStorage = &facade.CharmStorage{Provider: "kubernetes", Attributes: map[string]string{"k": "v"}}
	charm := fakes.Charm(2)
	c.AddApplication("a", fakes.App{Info: info, Charm: charm})
	spoil := func(i facade.OperatorProvisioningInfo, ch facade.CharmInfo) {
		i.APIAddresses[0], i.Tags["model"], i.CharmStorage.Provider = "x", "x", "x"
		i.CharmStorage.Attributes["k"] = "x"
		ch.Bases[0].Architectures[0] = "x"
	}
	spoil(info, charm)
	for range 2 {
		gotInfo, err := c.OperatorProvisioningInfo(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		gotCharm, err := c.CharmInfo(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if gotInfo.APIAddresses[0] == "x" || gotInfo.Tags["model"] == "x" || gotInfo.CharmStorage.Provider == "x" ||
			gotInfo.CharmStorage.Attributes["k"] == "x" || gotCharm.Bases[0].Architectures[0] == "x" {
			t.Error("shared with the controller")
		}
		spoil(gotInfo, gotCharm)
	}
}

func TestPasswordsAndLogins(t *testing.T) {
	_, c, _ := world("a")
	one, two, own := facade.NewSecret("1"), facade.NewSecret("2"), facade.NewSecret("own")
	if err := c.Login("a", facade.Secret{}); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("log-in without a password set: %v", err)
	}
	set := func(s facade.Secret) error {
		results, err := c.SetPasswords(t.Context(), []facade.ApplicationPassword{{Name: "a", Password: s}})
		if err != nil {
			t.Fatal(err)
		}
		return results[0]
	}
	for _, s := range []facade.Secret{one, one, two} {
		if err := set(s); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.PasswordChanges("a"); n != 2 {
		t.Errorf("%d changes", n)
	}
	if err := set(facade.Secret{}); !errors.Is(err, errors.NotValid) {
		t.Errorf("empty password: %v", err)
	}
	if err := c.Login("a", two); err != nil {
		t.Errorf("log-in: %v", err)
	}
	for _, wrong := range []facade.Secret{one, {}} {
		if err := c.Login("a", wrong); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("wrong log-in: %v", err)
		}
	}
	if err := c.ChangePassword("a", one, own); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("change with a wrong password: %v", err)
	}
	if err := c.ChangePassword("a", two, own); err != nil {
		t.Errorf("change: %v", err)
	}
	if got, ok := c.Password("a"); !ok || !got.Equal(own) {
		t.Error("the password is another one")
	}
	c.AddApplication("a", fakes.App{})
	if _, ok := c.Password("a"); ok {
		t.Error("a new application has the old one's password")
	}
}

func TestStatusIsWhatWasSetLast(t *testing.T) {
	_, c, _ := world("a")
	for _, s := range []facade.ProvisioningStatus{facade.StatusWaiting, facade.StatusError} {
		if err := c.SetProvisioningStatus(t.Context(), "a", s, "because"); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := c.Status("a"), (fakes.Status{Status: facade.StatusError, Message: "because", Changes: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// next returns the watcher's next event, sorted; nil when there is none yet.
func next(w facade.StringsWatcher) []string {
	select {
	case names := <-w.Changes():
		slices.Sort(names)
		return append([]string{}, names...)
	default:
		return nil
	}
}

func TestWatchersTellBaselineThenChanges(t *testing.T) {
	_, c, _ := world("a", "b")
	apps, err := c.WatchApplications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := c.WatchProvisioning(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name         string
		do           func()
		apps, inputs []string
	}{
		{"baseline", func() {}, []string{"a", "b"}, []string{"a", "b"}},
		{"nothing", func() {}, nil, nil},
		{"life", func() { c.SetLife("a", facade.Dying) }, []string{"a"}, nil},
		{"charm", func() { c.SetCharm("a", fakes.Charm(2)) }, []string{"a"}, nil},
		{"no charm", func() { c.RemoveCharm("a") }, []string{"a"}, nil},
		{"info", func() { c.SetInfo("b", fakes.Info()) }, nil, []string{"b"}},
		{"CA", c.RotateCA, nil, []string{"a", "b"}},
		{"added", func() { c.AddApplication("c", fakes.App{}) }, []string{"c"}, []string{"c"}},
		{"removed", func() { c.RemoveApplication("c") }, []string{"c"}, nil},
		{"coalesced", func() { c.SetLife("a", facade.Dead); c.SetLife("b", facade.Dying); c.RemoveApplication("a") }, []string{"a", "b"}, nil},
	}
	for _, step := range steps {
		step.do()
		if got := next(apps); !slices.Equal(got, step.apps) {
			t.Errorf("%s: applications %q, want %q", step.name, got, step.apps)
		}
		if got := next(inputs); !slices.Equal(got, step.inputs) {
			t.Errorf("%s: provisioning %q, want %q", step.name, got, step.inputs)
		}
	}
	c.Watchers("WatchApplications")[0].Fail(boom)
	if err := apps.Wait(); !errors.Is(err, boom) {
		t.Errorf("Wait: %v", err)
	}
	if len(c.Watchers("WatchApplications")) != 0 || len(c.Watchers("WatchProvisioning")) != 1 {
		t.Error("the wrong watcher is gone")
	}
	c.SetLife("b", facade.Dead)
	if got := next(apps); got != nil {
		t.Errorf("event of a dead watcher: %q", got)
	}
	inputs.Kill()
	if err := inputs.Wait(); err != nil {
		t.Errorf("Wait: %v", err)
	}
}

func TestWatchingAnEmptyModelHasAnEmptyBaseline(t *testing.T) {
	_, c, _ := world()
	w, err := c.WatchApplications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := next(w); got == nil || len(got) != 0 {
		t.Errorf("baseline %q", got)
	}
}

func TestDelayedAnswersAreWhatIsThereThen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, c, _ := world("a")
		f.Add(fakes.Rule{Method: "Life", Effect: fakes.Effect{Delay: time.Minute}})
		got := make(chan facade.Life)
		go func() {
			life, _ := c.Life(context.Background(), "a")
			got <- life
		}()
		time.Sleep(time.Second)
		c.SetLife("a", facade.Dying)
		if life := <-got; life != facade.Dying {
			t.Errorf("life %q", life)
		}
	})
}
