package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/agent/internal/outside"
)

// lookFromOutside has what is seen over HTTP compared with the report. What was
// seen is searched for secrets later.
func (s *stage) lookFromOutside(ctx context.Context) error {
	return s.until(ctx, func(v *view) error {
		seen := map[string]string{}
		for _, path := range []string{"/", "/?state=failed", "/report", "/report?format=json", "/metrics", "/ready"} {
			body, err := outside.Fetch(ctx, s.stateDir(), path)
			if err != nil {
				return err
			}
			s.reports = append(s.reports, body)
			seen[path] = string(body)
		}
		for state, n := range v.Manifolds.Provisioner.Report.Totals {
			line := fmt.Sprintf("\nsutler_operator_applications{state=%q} %d\n", state, n)
			if !strings.Contains(seen["/metrics"], line) {
				return errors.Errorf("there are no metrics of %d applications that are %s", n, state)
			}
		}
		for _, app := range []string{database, archive} {
			if !strings.Contains(seen["/"], app) {
				return errors.Errorf("%s is not on the page", app)
			}
		}
		if failed := seen["/?state=failed"]; !strings.Contains(failed, archive) || strings.Contains(failed, database) {
			return errors.Errorf("the page of those that failed is not one of %s", archive)
		}
		return nil
	})
}
