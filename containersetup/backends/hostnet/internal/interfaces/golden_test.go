package interfaces_test

import (
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/interfaces"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan/plantest"
)

var update = plantest.UpdateFlag()

func corpus(t testing.TB) []plantest.Case {
	return plantest.Load(t, "testdata/golden", "/etc/network")
}

func TestCorpusIsRewrittenAsItsGoldenFilesSay(t *testing.T) {
	plantest.Golden(t, interfaces.Bridge, corpus(t), *update)
}
