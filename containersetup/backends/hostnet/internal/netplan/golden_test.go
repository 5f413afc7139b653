package netplan_test

import (
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/netplan"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan/plantest"
)

var update = plantest.UpdateFlag()

func corpus(t testing.TB) []plantest.Case {
	return plantest.Load(t, "testdata/golden", "/etc/netplan")
}

func TestCorpusIsRewrittenAsItsGoldenFilesSay(t *testing.T) {
	plantest.Golden(t, netplan.Bridge, corpus(t), *update)
}
