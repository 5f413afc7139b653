package imports

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// The libraries of the root module, by the import paths that packages use.
const (
	juErrors = "github.com/juju/errors"
	juRetry  = "github.com/juju/retry"
	juClock  = "github.com/juju/clock"
	juWorker = "github.com/juju/worker/v3"
	yaml     = "gopkg.in/yaml.v3"
)

// libraries are all direct requirements that the root module has, and may have.
var libraries = []string{juErrors, juRetry, juClock, juWorker, yaml}

// compiled are the further modules of which something is compiled, as
// go mod tidy finds them: worker imports tomb, tomb imports x/net/context, and
// worker/dependency imports collections/set.
var compiled = []string{"github.com/juju/collections", "golang.org/x/net", "gopkg.in/tomb.v2"}

// arrow says what the code of a package, tests aside, may import of this
// repository and of the libraries. Standard packages have rules of their own.
type arrow struct {
	// From is a folder; with "/..." it stands for all below it too. The
	// longest that fits counts.
	From string
	// To are folders of the root module; with "/..." likewise.
	To []string
	// Libraries are module paths.
	Libraries []string
	// Why is the reason, printed with a failure.
	Why string
}

// arrows holds every package of the root module. One that is missing here fails
// the test: say first where its arrows may point.
var arrows = []arrow{{
	From: ".",
	Why:  "the root package is the map of the others, only documentation",
}, {
	From:      "facade",
	Libraries: []string{juErrors, juWorker},
	Why:       "an agent's author implements the facade: it must not pull in a worker or a back end",
}, {
	From:      "operator",
	To:        []string{"facade", "operator/internal/..."},
	Libraries: []string{juErrors, yaml},
	Why:       "whoever writes a manager needs the interface and the values of the facade, and nothing of the worker",
}, {
	From:      "operator/internal/...",
	To:        []string{"facade"},
	Libraries: []string{juErrors, yaml},
	Why:       "what operator and its adapters share stands below them",
}, {
	From:      "operator/agentconf",
	To:        []string{"facade", "operator/internal/..."},
	Libraries: []string{juErrors, yaml},
	Why:       "a file format is read by agents too, which have no use for managers or workers",
}, {
	From:      "operator/managertest",
	To:        []string{"facade", "operator", "operator/agentconf", "operator/internal/..."},
	Libraries: []string{juErrors, juWorker, yaml},
	Why:       "the suite judges a manager by the interface alone; knowing one of them, or the fakes, it would judge by that",
}, {
	From:      "operator/process",
	To:        []string{"facade", "operator", "operator/agentconf", "operator/internal/..."},
	Libraries: libraries,
	Why:       "an adapter knows the interface that it implements, not who uses it",
}, {
	From: "enginelog",
	Why:  "an agent gives this logger to its engine before there is anything else of sutler's",
}, {
	From:      "enginevalue",
	Libraries: []string{juErrors, juWorker},
	Why:       "an agent wires its engine with it, whatever workers it has",
}, {
	From:      "provisioner",
	To:        []string{"facade", "operator", "operator/agentconf", "enginelog", "internal/keyqueue", "internal/batch"},
	Libraries: libraries,
	Why:       "the worker knows interfaces only: a back end or a fake that it knew would be in every agent",
}, {
	From:      "containersetup/container",
	To:        []string{"facade"},
	Libraries: []string{juErrors},
	Why:       "whoever writes a back end needs the words and interfaces, and nothing of the workers",
}, {
	From:      "containersetup/hostprep",
	To:        []string{"facade", "containersetup/container", "internal/deadline"},
	Libraries: []string{juErrors, juClock},
	Why:       "a host is prepared by what is injected; who asks for it is not known here",
}, {
	From:      "containersetup/containerprovisioner",
	To:        []string{"facade", "containersetup/container", "containersetup/hostprep", "internal/keyqueue", "internal/batch", "internal/deadline"},
	Libraries: libraries,
	Why:       "the task knows interfaces only, and not the handler that starts it",
}, {
	From:      "containersetup/machinelock",
	To:        []string{"containersetup/container"},
	Libraries: []string{juErrors, juClock},
	Why:       "an adapter knows the interface that it implements, not who uses it",
}, {
	From:      "containersetup/backendtest",
	To:        []string{"facade", "containersetup/container"},
	Libraries: []string{juErrors},
	Why:       "the suite judges a back end by the interfaces alone",
}, {
	From:      "containersetup",
	To:        []string{"facade", "containersetup/...", "enginelog", "internal/deadline"},
	Libraries: libraries,
	Why:       "the handler knows interfaces only: a back end that it knew would be in every agent",
}, {
	From:      "fakes",
	To:        []string{"facade", "operator", "operator/agentconf", "containersetup/container"},
	Libraries: []string{juErrors, juClock, juWorker},
	Why:       "fakes stand in for what the worker calls; knowing the worker, they would bend to it, and managers' authors would compile it",
}, {
	From:      "internal/...",
	Libraries: []string{juErrors, juClock},
	Why:       "what is under internal is small and general, and tested alone",
}, {
	From:      "internal/simulation/...",
	To:        []string{"./..."},
	Libraries: libraries,
	Why:       "the simulation plays stories with the whole of the root module",
}, {
	From:      "internal/containersim",
	To:        []string{"./..."},
	Libraries: libraries,
	Why:       "the simulation plays stories with the whole of the root module",
}}

// ban keeps a standard package, and all below it, out of the root module's code,
// tests aside.
type ban struct {
	Import string
	But    []string // folders where it is allowed
	Why    string
}

var bans = []ban{{
	Import: "testing",
	But:    []string{"operator/managertest", "containersetup/backendtest"},
	Why:    "it registers flags and weighs down an agent's binary; only a suite that is called from tests needs it",
}, {
	Import: "net/http",
	Why:    "the root module talks to the world through what the agent injects; servers and clients live in nested modules",
}, {
	Import: "os/exec",
	But:    []string{"operator/process"},
	Why:    "programs are started in one place, where arguments and environment are kept free of secrets",
}, {
	Import: "log",
	Why:    "there is no global logger: an agent hands in a *slog.Logger",
}, {
	Import: "unsafe",
	Why:    "nothing here is worth it",
}, {
	Import: "C",
	Why:    "the root module builds without a C compiler",
}}

// leaves are folders of modules that nothing else in the repository may import.
var leaves = []string{"examples", "bench"}

// A violation is one broken rule, as text: who does what, and why it is wrong.
type violation string

func broken(why, format string, args ...any) violation {
	return violation(fmt.Sprintf(format, args...) + "\n\tbecause " + why)
}

// check returns all that is wrong with the packages and modules of a repository.
func check(t tree, work modFile) []violation {
	var all []violation
	for _, p := range t.Packages {
		all = append(all, checkLeaves(p)...)
		if p.Module == "." {
			all = append(all, checkArrows(p, arrows)...)
			all = append(all, checkBans(p, bans)...)
		}
	}
	all = append(all, checkRootModule(t.Modules["."])...)
	all = append(all, checkNestedModules(t.Modules, work)...)
	return all
}

// checkArrows holds what one package of the root module imports of the
// repository and of the libraries.
func checkArrows(p pkg, arrows []arrow) []violation {
	a, ok := arrowFor(p.Path, arrows)
	if !ok {
		return []violation{broken("an arrow that nobody has thought about may point anywhere",
			"package %s is not in the table of arrows", p.Path)}
	}
	var all []violation
	for _, f := range p.Files {
		for _, imported := range f.Imports {
			folder, own := ownPath(imported)
			switch {
			case standard(imported):
			case own && f.Test:
				// A test is the last in its chain and may use any
				// package of the root module.
			case own && !covers(a.To, folder):
				all = append(all, broken(a.Why, "%s/%s imports %s", p.Path, f.Name, folder))
			case own:
			case f.Test && !inModule(libraries, imported):
				all = append(all, broken("whoever depends on the root module also downloads what its tests need",
					"%s/%s imports %s", p.Path, f.Name, imported))
			case !f.Test && !inModule(a.Libraries, imported):
				all = append(all, broken(a.Why, "%s/%s imports %s", p.Path, f.Name, imported))
			}
		}
	}
	return all
}

// arrowFor finds the arrow with the longest From that fits.
func arrowFor(folder string, arrows []arrow) (arrow, bool) {
	var found arrow
	ok := false
	for _, a := range arrows {
		if covers([]string{a.From}, folder) && (!ok || len(a.From) > len(found.From)) {
			found, ok = a, true
		}
	}
	return found, ok
}

// covers tells whether one of the patterns fits the folder.
func covers(patterns []string, folder string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		dir, below := strings.CutSuffix(pattern, "/...")
		return folder == dir || below && within(folder, dir)
	})
}

// inModule tells whether an import path belongs to one of the modules.
func inModule(modules []string, imported string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return within(imported, m) })
}

// checkBans holds which standard packages the root module's code may use, and
// that nothing happens at import.
func checkBans(p pkg, bans []ban) []violation {
	var all []violation
	for _, f := range p.Files {
		if f.Test {
			continue
		}
		for _, imported := range f.Imports {
			for _, b := range bans {
				if bannedBy(b, imported) && !slices.Contains(b.But, p.Path) {
					all = append(all, broken(b.Why, "%s/%s imports %s", p.Path, f.Name, imported))
				}
			}
		}
		if f.Init {
			all = append(all, broken("importing a package does nothing: there is no package-level state to set up",
				"%s/%s has a func init", p.Path, f.Name))
		}
	}
	return all
}

// bannedBy tells whether an import is the banned package or one below it;
// log/slog is no part of log.
func bannedBy(b ban, imported string) bool {
	return within(imported, b.Import) && imported != "log/slog"
}

// checkLeaves holds that nothing imports examples or bench, tests included.
func checkLeaves(p pkg) []violation {
	var all []violation
	for _, f := range p.Files {
		for _, imported := range f.Imports {
			folder, own := ownPath(imported)
			for _, leaf := range leaves {
				if own && within(folder, leaf) && !within(p.Path, leaf) {
					all = append(all, broken("examples and benchmarks show how the library is used; what uses them is no library",
						"%s/%s imports %s", p.Path, f.Name, folder))
				}
			}
		}
	}
	return all
}

// checkRootModule holds what whoever depends on the root module compiles.
func checkRootModule(m modFile) []violation {
	const why = "a user of the workers compiles five libraries; what needs more is a nested module"
	var all []violation
	if m.Module != root {
		all = append(all, broken("import paths are for ever", "the root module is called %q", m.Module))
	}
	if got, want := slices.Sorted(maps.Keys(m.Direct)), sorted(libraries); !slices.Equal(got, want) {
		all = append(all, broken(why, "go.mod requires %v, want %v", got, want))
	}
	if got, want := slices.Sorted(maps.Keys(m.Indirect)), sorted(compiled); !slices.Equal(got, want) {
		all = append(all, broken("go mod tidy lists here what else is compiled, and each is one more thing to watch for flaws",
			"go.mod requires indirectly %v, want %v", got, want))
	}
	if len(m.Replace) != 0 {
		all = append(all, broken("replace has no effect for whoever depends on the module, who would get something else than was tested",
			"go.mod replaces %v", slices.Sorted(maps.Keys(m.Replace))))
	}
	return all
}

// checkNestedModules holds that nested modules build against this checkout, with
// the workspace and without.
func checkNestedModules(modules map[string]modFile, work modFile) []violation {
	var all []violation
	for _, folder := range slices.Sorted(maps.Keys(modules)) {
		m := modules[folder]
		if m.Go != modules["."].Go {
			all = append(all, broken("one version of the language for all modules", "%s/go.mod says go %s, the root says %s", folder, m.Go, modules["."].Go))
		}
		if !slices.Contains(work.Use, folder) {
			all = append(all, broken("work in the checkout sees all modules", "go.work does not use %s", folder))
		}
		if folder == "." {
			continue
		}
		if want := root + "/" + folder; m.Module != want {
			all = append(all, broken("the go command finds a nested module by its folder", "%s/go.mod says module %s, want %s", folder, m.Module, want))
		}
		for _, required := range append(slices.Sorted(maps.Keys(m.Direct)), slices.Sorted(maps.Keys(m.Indirect))...) {
			target, own := ownPath(local(required))
			if !own {
				continue
			}
			if at := m.Replace[required]; path.Join(folder, at) != target || !strings.HasPrefix(at, ".") {
				all = append(all, broken("without the workspace the module would be built against something that was published",
					"%s/go.mod requires %s and replaces it with %q, want the way to %s", folder, required, at, target))
			}
		}
	}
	for _, used := range work.Use {
		if _, ok := modules[used]; !ok {
			all = append(all, broken("the go command refuses to work with a workspace like that", "go.work uses %s, which has no go.mod", used))
		}
	}
	return all
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }
