// Command compare measures the contenders and writes what it finds to the
// documentation: the figures as JSON, a chart of each, and the tables in
// BENCHMARKS.md that stand between marks. Run it in the folder of module bench.
//
//	compare                  # measure everything, which takes some minutes, and write
//	compare -only storm      # measure the figures whose IDs begin so; keep the others
//	compare -render          # measure nothing; write from the figures that are there
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/bench/figures"
)

func main() {
	docs := flag.String("docs", "../docs", "the folder of BENCHMARKS.md")
	render := flag.Bool("render", false, "measure nothing")
	only := flag.String("only", "", "measure the figures whose IDs begin with this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := compare(ctx, *docs, *render, *only); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		stop()
		os.Exit(1)
	}
}

func compare(ctx context.Context, docs string, render bool, only string) error {
	path := filepath.Join(docs, "benchmarks", "figures.json")
	if !render {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // documentation is for everybody
			return errors.Trace(err)
		}
		if err := measure(ctx, path, only); err != nil {
			return errors.Trace(err)
		}
	}
	r, err := figures.Read(path)
	if err != nil {
		return errors.Trace(err)
	}
	files, err := r.Documents(docs)
	if err != nil {
		return errors.Trace(err)
	}
	for name, content := range files {
		if err := figures.WriteFile(name, []byte(content)); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// measure runs the tests that measure, and writes what they found to path. Those
// that were not measured are kept.
func measure(ctx context.Context, path, only string) error {
	scratch, err := os.MkdirTemp("", "sutler-figures-")
	if err != nil {
		return errors.Trace(err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	fresh := filepath.Join(scratch, "figures.json")
	args := []string{"test", "-count=1", "-timeout=2h", "-v", "-run=^TestFigures$", ".", "-figures=" + fresh, "-only=" + only}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return errors.Annotate(err, "measuring")
	}
	r, err := figures.Read(fresh)
	if err != nil {
		return errors.Trace(err)
	}
	version, err := versionOf(ctx, "sigs.k8s.io/controller-runtime")
	if err != nil {
		return errors.Trace(err)
	}
	r.Setting = append(r.Setting,
		figures.Fact{Name: "sigs.k8s.io/controller-runtime", Value: version},
		figures.Fact{Name: "measured on", Value: time.Now().UTC().Format(time.DateOnly)})
	if only != "" {
		before, err := figures.Read(path)
		if err != nil {
			return errors.Trace(err)
		}
		before.Replace(r.Figures)
		r = before
	}
	return r.Write(path)
}

// versionOf is the version of a module that this one is built with.
func versionOf(ctx context.Context, module string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		return "", errors.Annotatef(err, "version of %s", module)
	}
	return strings.TrimSpace(string(out)), nil
}
