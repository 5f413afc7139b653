package managertest

import (
	"fmt"
	"strings"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// Config returns a configuration for the application that is well-formed in
// every part; those of different n differ in password, certificate and key.
// The certificate is none: for a manager whose operators look at theirs, a
// [Harness] has a Config of its own.
func Config(app string, n int) *operator.Config {
	agentConf := fmt.Sprintf(`# format 2.0
tag: application-%[1]s
datadir: /var/lib/juju
transient-datadir: /var/run/juju
logdir: /var/log/juju
metricsspooldir: /var/lib/juju/metricspool
upgradedToVersion: 2.9.49
cacert: ca-of-controller-%[2]d
controller: controller-a1e5c3f2-7d4b-4c68-9f10-3b2d6e8a7c51
model: model-5d0f8b6e-42c7-4a19-8e3d-9b7a1c6f2e04
apiaddresses:
- 10.0.0.1:17070
oldpassword: canary-password-%[1]s-%[2]d
values: {}
`, app, n)
	info := fmt.Sprintf("ca-cert: ca-of-operator-%[2]d\ncert: cert-of-%[1]s-%[2]d\nprivate-key: canary-key-%[1]s-%[2]d\n", app, n)
	return &operator.Config{
		ImageDetails:     facade.ImageDetails{RegistryPath: "registry.example.com/operator:2.9.49"},
		BaseImageDetails: facade.ImageDetails{RegistryPath: "registry.example.com/charm-base:ubuntu-20.04"},
		Version:          "2.9.49",
		ResourceTags:     map[string]string{"purpose": "conformance"},
		AgentConf:        facade.NewSecret(agentConf),
		OperatorInfo:     facade.NewSecret(info),
	}
}

// secretsOf returns the texts of cfg that nobody may repeat: every line of its
// files that is long enough to be recognised, and passwords by themselves.
func secretsOf(cfg *operator.Config) []string {
	const recognised = 16
	var out []string
	for _, file := range []facade.Secret{cfg.AgentConf, cfg.OperatorInfo} {
		for line := range strings.Lines(file.Reveal()) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "#") {
				continue
			}
			if len(line) >= recognised {
				out = append(out, line)
			}
			for _, key := range []string{"oldpassword:", "apipassword:", "private-key:"} {
				if value, ok := strings.CutPrefix(line, key); ok {
					if value = strings.Trim(strings.TrimSpace(value), `"'`); len(value) > 2 {
						out = append(out, value)
					}
				}
			}
		}
	}
	for _, s := range []facade.Secret{
		cfg.ImageDetails.Password, cfg.ImageDetails.Auth,
		cfg.ImageDetails.IdentityToken, cfg.ImageDetails.RegistryToken,
	} {
		if !s.IsZero() {
			out = append(out, s.Reveal())
		}
	}
	return out
}
