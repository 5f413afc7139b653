package main

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLimitsAreTheCodes(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs", "limits.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []struct{ file, constant, value, says string }{
		{"facade/values.go", "MaxApplicationName", "200", "an application's name | 200 bytes"},
		{"operator/kubernetes/names.go", "maxStatefulSetName", "52", "the StatefulSet's name | 52 bytes"},
		{"containersetup/container/id.go", "maxID", "1024", "a container's id | 1024 bytes"},
		{"containersetup/container/name.go", "MaxInstanceName", "63", "instance name | 63 bytes"},
		{"facade/containers.go", "maxInterfaceName", "15", "interface's name | 15 bytes"},
		{"operator/internal/strictyaml/strictyaml.go", "MaxSize", "1 << 20", "when read | 1 MiB"},
		{"operator/internal/strictyaml/strictyaml.go", "maxDepth", "32", "nesting 32 deep"},
		{"operator/kubernetes/secrets.go", "maxFiles", "1000 << 10", "both together on Kubernetes | 1000 KiB"},
		{"operator/kubernetes/ensure.go", "maxSize", "1 << 40", "charm storage on Kubernetes | 2^40 MiB"},
		{"containersetup/backends/kvm/internal/machine/seed.go", "maxUserData", "16 << 20", "user data of a virtual machine | 16 MiB"},
		{"containersetup/backends/kvm/internal/images/config.go", "maxSize", "1 << 40", "image of a virtual machine | 1 TiB"},
		{"containersetup/backends/hostnet/internal/plan/plan.go", "maxFile", "256 << 10", "network configuration | 256 KiB"},
		{"containersetup/backends/hostnet/internal/interfaces/sources.go", "maxFiles", "1000", "256 KiB, 1000 files"},
		{"containersetup/backends/lxd/internal/api/client.go", "maxSocketPath", "107", "daemon's socket | 107 bytes"},
		{"containersetup/backends/kvm/internal/virt/client.go", "maxSocketPath", "107", "daemon's socket | 107 bytes"},
		{"containersetup/backends/lxd/internal/api/request.go", "maxAnswer", "8 << 20", "answer of LXD | 8 MiB"},
		{"containersetup/backends/lxd/internal/api/request.go", "maxList", "64 << 20", "64 MiB for a list"},
		{"containersetup/backends/host/host.go", "maxOutput", "1 << 20", "run on the host | 1 MiB"},
		{"operator/process/manager_linux.go", "logLimit", "10 << 20", "log as a process | 10 MiB"},
		{"provisioner/report.go", "maxReported", "100", "in a report | 100"},
		{"containersetup/containerprovisioner/report.go", "maxReported", "100", "in a report | 100"},
		{"containersetup/containerprovisioner/status.go", "maxMessage", "500", "repeats of an error | 500 bytes"},
		{"containersetup/worker.go", "maxSkipped", "1000", "1000 in set-up"},
		{"containersetup/containerprovisioner/ids.go", "maxSkipped", "100", "100 in a provisioner"},
		{"provisioner/config.go", "DefaultConcurrency", "16", "`provisioner.Config.Concurrency` (16)"},
		{"provisioner/config.go", "DefaultResyncInterval", "10 * time.Minute", "`ResyncInterval` (10 min)"},
		{"containersetup/containerprovisioner/config.go", "DefaultConcurrency", "4", "`containerprovisioner.Config.Concurrency` (4)"},
	} {
		got, err := constant(filepath.Join(root, filepath.FromSlash(l.file)), l.constant)
		if err != nil {
			t.Errorf("%s: %v", l.file, err)
			continue
		}
		if got != l.value {
			t.Errorf("%s in %s is %s now: correct docs/limits.md, and this test (%s)", l.constant, l.file, got, l.value)
		}
		if !strings.Contains(string(data), l.says) {
			t.Errorf("docs/limits.md does not say %q any more", l.says)
		}
	}
}

// constant returns the expression of a constant as it is written.
func constant(file, name string) (string, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, id := range spec.Names {
			if id.Name == name && i < len(spec.Values) {
				err = printer.Fprint(&out, set, spec.Values[i])
			}
		}
		return true
	})
	return out.String(), err
}
