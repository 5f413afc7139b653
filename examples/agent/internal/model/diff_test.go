package model

import (
	"reflect"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

func TestDiffNamesWhatChanged(t *testing.T) {
	app := func(change func(*Application)) *Model {
		a := &Application{
			Name:  "db",
			Life:  facade.Alive,
			Info:  facade.OperatorProvisioningInfo{Version: "1.0", Tags: map[string]string{"a": "b"}},
			Charm: facade.CharmInfo{Name: "db", Series: []string{"kubernetes"}},
		}
		change(a)
		return &Model{Applications: map[string]*Application{"db": a}}
	}
	same := func(*Application) {}
	none := &Model{}
	db := []string{"db"}
	for name, test := range map[string]struct {
		before, after *Model
		want          Changes
	}{
		"nothing":       {app(same), app(same), Changes{}},
		"first reading": {nil, app(same), Changes{Applications: db, Provisioning: db}},
		"added":         {none, app(same), Changes{Applications: db, Provisioning: db}},
		"removed":       {app(same), none, Changes{Applications: db}},
		"life":          {app(same), app(func(a *Application) { a.Life = facade.Dying }), Changes{Applications: db}},
		"charm":         {app(same), app(func(a *Application) { a.Charm.Series = nil }), Changes{Applications: db}},
		"charm gone":    {app(same), app(func(a *Application) { a.CharmErr = noCharm("db") }), Changes{Applications: db}},
		"version":       {app(same), app(func(a *Application) { a.Info.Version = "2.0" }), Changes{Provisioning: db}},
		"tags":          {app(same), app(func(a *Application) { a.Info.Tags = nil }), Changes{Provisioning: db}},
		"storage": {app(same), app(func(a *Application) { a.Info.CharmStorage = &facade.CharmStorage{} }),
			Changes{Provisioning: db}},
		"became unreadable": {app(same), app(func(a *Application) { a.Err = errors.New("x") }), Changes{Applications: db, Provisioning: db}},
		"another complaint": {app(func(a *Application) { a.Err = errors.New("x") }),
			app(func(a *Application) { a.Err = errors.New("y") }), Changes{Applications: db, Provisioning: db}},
		"the same complaint": {app(func(a *Application) { a.Err = errors.New("x") }),
			app(func(a *Application) { a.Err = errors.New("x") }), Changes{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Diff(test.before, test.after); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestDiffNamesWhatChangedOfTheMachine(t *testing.T) {
	model := func(change func(*Container), harvest facade.HarvestMode) *Model {
		c := &Container{
			ID:   "0/box/0",
			Life: facade.Alive,
			Info: facade.ContainerProvisioningInfo{UserData: facade.NewSecret("a")},
		}
		change(c)
		return &Model{Machine: &Machine{ID: "0", Harvest: harvest}, Containers: map[string]*Container{c.ID: c}}
	}
	same := func(*Container) {}
	with := func(change func(*Container)) *Model { return model(change, facade.HarvestAll) }
	none := &Model{Machine: &Machine{ID: "0", Harvest: facade.HarvestAll}}
	box := Changes{Containers: []string{"0/box/0"}}
	for name, test := range map[string]struct {
		before, after *Model
		want          Changes
	}{
		"nothing":           {with(same), with(same), Changes{}},
		"first reading":     {nil, with(same), box},
		"added":             {none, with(same), box},
		"removed":           {with(same), none, box},
		"life":              {with(same), with(func(c *Container) { c.Life = facade.Dead }), box},
		"retry":             {with(same), with(func(c *Container) { c.Retry = "1" }), box},
		"user data":         {with(same), with(func(c *Container) { c.Info.UserData = facade.NewSecret("b") }), box},
		"became unreadable": {with(same), with(func(c *Container) { c.Err = errors.New("x") }), box},
		"the same complaint": {with(func(c *Container) { c.Err = errors.New("x") }),
			with(func(c *Container) { c.Err = errors.New("x") }), Changes{}},
		"harvest mode":   {with(same), model(same, facade.HarvestNone), Changes{Harvest: true}},
		"no machine yet": {&Model{}, none, Changes{Harvest: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Diff(test.before, test.after); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
