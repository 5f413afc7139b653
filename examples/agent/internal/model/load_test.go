package model

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

const settings = "name: shop\nuuid: 9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e\n"

// writeModel lays out a model's directory; a path that ends in a slash is a
// directory.
func writeModel(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestModelIsLoaded(t *testing.T) {
	m, err := Load(writeModel(t, map[string]string{
		"model.yaml":                             settings + "version: 2.9.50\n",
		"applications/db/application.yaml":       "life: dying\n",
		"applications/db/charm/metadata.yaml":    "name: mariadb-k8s\nseries: [kubernetes]\n",
		"applications/web/application.yaml":      "version: 3.1.0\n",
		"applications/web/charm/metadata.yaml":   "name: web\n",
		"applications/web/charm/manifest.yaml":   "bases: [{name: ubuntu, channel: '22.04'}]\n",
		"applications/bare/application.yaml":     "",
		"applications/.git/config":               "not an application",
		"applications/.db.swp":                   "an editor's",
		"applications/db/notes.txt":              "of no concern",
		"applications/db/charm/src/charm.py":     "of no concern",
		"applications/web/charm/config.yaml":     "options: {}",
		"README":                                 "of no concern",
		"applications/bare/charm/metadata.yaml~": "an editor's",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "shop" || len(m.Problems) != 0 {
		t.Errorf("got name %q, problems %v", m.Name, m.Problems)
	}
	if got, want := slices.Sorted(maps.Keys(m.Applications)), []string{"bare", "db", "web"}; !slices.Equal(got, want) {
		t.Fatalf("got applications %v, want %v", got, want)
	}
	db, web, bare := m.Applications["db"], m.Applications["web"], m.Applications["bare"]
	if db.Life != facade.Dying || db.Info.Version != "2.9.50" || db.Charm.Format() != 1 {
		t.Errorf("db: got %+v", db)
	}
	if web.Life != facade.Alive || web.Info.Version != "3.1.0" || web.Charm.Format() != 2 {
		t.Errorf("web: got %+v", web)
	}
	if bare.Err != nil || !errors.Is(bare.CharmErr, errors.NotFound) {
		t.Errorf("bare: got %v, %v; want a charm that is not found", bare.Err, bare.CharmErr)
	}
}

func TestMalformedFileCostsItsOwnApplicationAlone(t *testing.T) {
	dir := writeModel(t, map[string]string{
		"model.yaml":                              settings,
		"applications/good/application.yaml":      "",
		"applications/good/charm/metadata.yaml":   "name: good\n",
		"applications/broken/application.yaml":    "life: alive\nversion: [\n",
		"applications/charmless/application.yaml": "",
		"applications/charmless/charm/metadata.yaml": "summary: x\n" +
			"series: [x]\n",
		"applications/missing/":                     "",
		"applications/huge/application.yaml":        "# " + strings.Repeat("x", MaxModelFile),
		"applications/odd/application.yaml/":        "",
		"applications/Not_A_Name/":                  "",
		"applications/file":                         "",
		"applications/manifest/application.yaml":    "",
		"applications/manifest/charm/metadata.yaml": "name: m\n",
		"applications/manifest/charm/manifest.yaml": "bases: 3\n",
	})
	if err := os.Mkdir(filepath.Join(dir, "applications/fifo"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "applications/fifo/application.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range m.Problems {
		got = append(got, p.Error())
	}
	want := []string{
		"applications/Not_A_Name: want an application's name: " + wantName + ", a letter in each part",
		"applications/broken/application.yaml:3: " + syntaxRule,
		"applications/charmless/charm/metadata.yaml:1: name: want the charm's name",
		"applications/fifo/application.yaml: want a regular file",
		"applications/file: want a directory",
		"applications/huge/application.yaml: want a file of at most 64 KiB",
		"applications/manifest/charm/manifest.yaml:1: bases: want a list, not a text",
		"applications/missing/application.yaml: is not there",
		"applications/odd/application.yaml: want a regular file",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if good := m.Applications["good"]; good.Err != nil || good.CharmErr != nil {
		t.Errorf("the good one: %v, %v", good.Err, good.CharmErr)
	}
	// A file that cannot be read is not an application that was removed.
	for _, name := range []string{"broken", "missing", "huge", "odd", "fifo"} {
		if app := m.Applications[name]; app == nil || !errors.Is(app.Err, errors.NotValid) {
			t.Errorf("%s: want it known and NotValid, got %+v", name, app)
		}
	}
}

func TestUnreadableModelIsAnErrorNotAnEmptyOne(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing there":    {nil, "model.yaml: is not there"},
		"no applications/": {map[string]string{"model.yaml": settings}, "applications: is not there"},
		"applications is a file": {map[string]string{"model.yaml": settings, "applications": ""},
			"applications: cannot be read: not a directory"},
		"malformed settings": {map[string]string{"model.yaml": "name: shop\n", "applications/": ""},
			"model.yaml:1: uuid: " + wantUUID},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Load(writeModel(t, test.files))
			if m != nil || err == nil || err.Error() != test.want {
				t.Errorf("got %v, %v; want %s", m, err, test.want)
			}
		})
	}
}

func TestTooManyApplicationsAreRefused(t *testing.T) {
	dir := writeModel(t, map[string]string{"model.yaml": settings, "applications/": ""})
	m := &Model{Applications: map[string]*Application{}}
	for i := range MaxApplications {
		m.Applications[string(rune(i))] = &Application{}
	}
	if err := os.Mkdir(filepath.Join(dir, "applications/more"), 0o700); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "applications"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.add(dir, entries[0]); !errors.Is(err, errors.QuotaLimitExceeded) {
		t.Errorf("got %v, want QuotaLimitExceeded", err)
	}
}

func TestDirectoryThatIsReplacedWhileItIsReadTellsNothing(t *testing.T) {
	dir := t.TempDir()
	apps := filepath.Join(dir, ApplicationsDir)
	for _, name := range []string{"applications/db", "other/web"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	away := func(fs.DirEntry) error { return os.Rename(apps, filepath.Join(dir, "unmounted")) }
	if err := forEach(dir, ApplicationsDir, away); err == nil || err.Error() != "applications: is not there" {
		t.Errorf("got %v", err)
	}
	if err := os.Rename(filepath.Join(dir, "unmounted"), apps); err != nil {
		t.Fatal(err)
	}
	replace := func(e fs.DirEntry) error {
		if err := away(e); err != nil {
			return err
		}
		return os.Rename(filepath.Join(dir, "other"), apps)
	}
	if err := forEach(dir, ApplicationsDir, replace); err == nil || err.Error() != "applications: was replaced while it was being read" {
		t.Errorf("got %v", err)
	}
	if err := forEach(dir, ApplicationsDir, func(fs.DirEntry) error { return nil }); err != nil {
		t.Errorf("got %v", err)
	}
}
