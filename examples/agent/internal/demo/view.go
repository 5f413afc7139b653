package demo

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"
)

// view is what of the agent's report the demo looks at.
type view struct {
	Manifolds struct {
		Controller struct {
			Report struct {
				Address      string                  `yaml:"address"`
				Problems     []string                `yaml:"problems"`
				Applications map[string]*application `yaml:"applications"`
				Containers   map[string]*container   `yaml:"containers"`
			} `yaml:"report"`
		} `yaml:"controller"`
		Leader struct {
			State string `yaml:"state"`
		} `yaml:"leader"`
		Provisioner struct {
			State  string `yaml:"state"`
			Report struct {
				Totals       map[string]int `yaml:"totals"`
				Applications []progress     `yaml:"applications"`
			} `yaml:"report"`
		} `yaml:"operator-provisioner"`
		ContainerSetup struct {
			Report struct {
				Provisioners struct {
					Workers map[string]containerProvisioner `yaml:"workers"`
				} `yaml:"provisioners"`
			} `yaml:"report"`
		} `yaml:"container-setup"`
	} `yaml:"manifolds"`
}

// application is the controller's view of one.
type application struct {
	Life   string `yaml:"life"`
	Format int    `yaml:"format"`
	Error  string `yaml:"error"`
	// Provisioning is empty until the provisioner has looked.
	Provisioning string `yaml:"provisioning"`
	Operator     struct {
		Logins      int       `yaml:"logins"`
		Refused     int       `yaml:"refused"`
		LastSeen    time.Time `yaml:"last-seen"`
		Status      string    `yaml:"status"`
		Address     string    `yaml:"address"`
		Certificate string    `yaml:"certificate"`
	} `yaml:"operator"`
}

// containerProvisioner is the view of what makes and removes the containers of
// one type.
type containerProvisioner struct {
	Report struct {
		Totals    map[string]int `yaml:"totals"`
		Instances struct {
			Total int `yaml:"total"`
		} `yaml:"instances"`
	} `yaml:"report"`
}

// container is the controller's view of one.
type container struct {
	Life      string   `yaml:"life"`
	State     string   `yaml:"state"`
	Message   string   `yaml:"message"`
	Instance  string   `yaml:"instance"`
	Addresses []string `yaml:"addresses"`
	Error     string   `yaml:"error"`
}

// unseen tells whether the provisioner has not looked at a living application
// yet, and so has nothing to say about it.
func (a *application) unseen() bool { return a.Life == "alive" && a.Provisioning == "" }

// progress is the provisioner's view of an application that is not settled.
type progress struct {
	Name     string `yaml:"name"`
	State    string `yaml:"state"`
	Attempts int    `yaml:"attempts"`
	Error    string `yaml:"error"`
}

func parseView(data []byte) (*view, error) {
	var v view
	if err := yaml.Unmarshal(data, &v); err != nil {
		return nil, errors.Annotate(err, "reading the report")
	}
	return &v, nil
}

// settled is the state of an application that the provisioner has nothing to
// say about.
const settled = "settled"

func (v *view) progress(app string) progress {
	for _, p := range v.Manifolds.Provisioner.Report.Applications {
		if p.Name == app {
			return p
		}
	}
	return progress{Name: app, State: settled}
}

// application returns the controller's view; one that it does not know has no
// life.
func (v *view) application(app string) *application {
	if a := v.Manifolds.Controller.Report.Applications[app]; a != nil {
		return a
	}
	return &application{}
}

// container returns the controller's view; one that it does not know has no
// life.
func (v *view) container(id string) *container {
	if c := v.Manifolds.Controller.Report.Containers[id]; c != nil {
		return c
	}
	return &container{}
}

func (v *view) problems() []string { return v.Manifolds.Controller.Report.Problems }

func (v *view) failed() int { return v.Manifolds.Provisioner.Report.Totals["failed"] }

// containerRows are the other table: every container that the controller knows.
func (v *view) containerRows() []containerRow {
	all := v.Manifolds.Controller.Report.Containers
	var rows []containerRow
	for _, id := range slices.Sorted(maps.Keys(all)) {
		c := all[id]
		rows = append(rows, containerRow{id, c.Life, c.State, c.Instance, cmp.Or(c.Error, c.Message)})
	}
	return rows
}

// rows are the table: every application that anybody knows.
func (v *view) rows() []row {
	names := map[string]bool{}
	for name := range v.Manifolds.Controller.Report.Applications {
		names[name] = true
	}
	for _, p := range v.Manifolds.Provisioner.Report.Applications {
		names[p.Name] = true
	}
	var rows []row
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, p := v.application(name), v.progress(name)
		r := row{
			application: name,
			life:        cmp.Or(a.Life, "gone"),
			state:       p.State,
			attempts:    p.Attempts,
			operator:    cmp.Or(a.Operator.Status, "-"),
			lastError:   cmp.Or(p.Error, a.Error),
		}
		switch {
		case a.Format > 1:
			r.state = "not ours (v2)"
		case a.unseen() && p.State == settled:
			r.state = "-"
		}
		rows = append(rows, r)
	}
	return rows
}
