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
		"first reading": {nil, app(same), Changes{db, db}},
		"added":         {none, app(same), Changes{db, db}},
		"removed":       {app(same), none, Changes{db, nil}},
		"life":          {app(same), app(func(a *Application) { a.Life = facade.Dying }), Changes{db, nil}},
		"charm":         {app(same), app(func(a *Application) { a.Charm.Series = nil }), Changes{db, nil}},
		"charm gone":    {app(same), app(func(a *Application) { a.CharmErr = noCharm("db") }), Changes{db, nil}},
		"version":       {app(same), app(func(a *Application) { a.Info.Version = "2.0" }), Changes{nil, db}},
		"tags":          {app(same), app(func(a *Application) { a.Info.Tags = nil }), Changes{nil, db}},
		"storage": {app(same), app(func(a *Application) { a.Info.CharmStorage = &facade.CharmStorage{} }),
			Changes{nil, db}},
		"became unreadable": {app(same), app(func(a *Application) { a.Err = errors.New("x") }), Changes{db, db}},
		"another complaint": {app(func(a *Application) { a.Err = errors.New("x") }),
			app(func(a *Application) { a.Err = errors.New("y") }), Changes{db, db}},
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
