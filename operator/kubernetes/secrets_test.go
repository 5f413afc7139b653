package kubernetes

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

func TestPullConfigIsWhatContainerEnginesRead(t *testing.T) {
	secret := facade.NewSecret
	for _, test := range []struct {
		name   string
		images []facade.ImageDetails
		want   string
	}{
		{"nothing private", []facade.ImageDetails{{RegistryPath: "registry.example.com/a:1"}}, `{"auths":{}}`},
		{
			"user and password", // base64 of puller:pa55
			[]facade.ImageDetails{{RegistryPath: "registry.example.com/a:1", Username: "puller", Password: secret("pa55")}},
			`{"auths":{"registry.example.com":{"username":"puller","password":"pa55","auth":"cHVsbGVyOnBhNTU="}}}`,
		}, {
			"what is given goes before what is worked out",
			[]facade.ImageDetails{{RegistryPath: "registry.example.com/a:1", Username: "puller", Password: secret("pa55"), Auth: secret("given")}},
			`{"auths":{"registry.example.com":{"username":"puller","password":"pa55","auth":"given"}}}`,
		}, {
			"tokens",
			[]facade.ImageDetails{{RegistryPath: "registry.example.com/a:1", IdentityToken: secret("id"), RegistryToken: secret("reg")}},
			`{"auths":{"registry.example.com":{"identitytoken":"id","registrytoken":"reg"}}}`,
		}, {
			"the registry's own address",
			[]facade.ImageDetails{{RegistryPath: "mirror.example.com/a:1", ServerAddress: "https://registry.example.com:5000/v2/", Auth: secret("x")}},
			`{"auths":{"https://registry.example.com:5000/v2/":{"auth":"x"}}}`,
		}, {
			"a registry with a port",
			[]facade.ImageDetails{{RegistryPath: "registry:5000/a:1", Auth: secret("x")}},
			`{"auths":{"registry:5000":{"auth":"x"}}}`,
		}, {
			"a registry of this machine",
			[]facade.ImageDetails{{RegistryPath: "localhost/a:1", Auth: secret("x")}},
			`{"auths":{"localhost":{"auth":"x"}}}`,
		}, {
			"the registry that has no name in a path",
			[]facade.ImageDetails{{RegistryPath: "jujusolutions/jujud-operator:2.9.49", Auth: secret("x")}},
			`{"auths":{"https://index.docker.io/v1/":{"auth":"x"}}}`,
		}, {
			"nor a path",
			[]facade.ImageDetails{{RegistryPath: "jujud-operator:2.9.49", Auth: secret("x")}},
			`{"auths":{"https://index.docker.io/v1/":{"auth":"x"}}}`,
		}, {
			"two registries",
			[]facade.ImageDetails{{RegistryPath: "a.example.com/a", Auth: secret("1")}, {RegistryPath: "b.example.com/b", Auth: secret("2")}},
			`{"auths":{"a.example.com":{"auth":"1"},"b.example.com":{"auth":"2"}}}`,
		}, {
			"one registry, the operator's image first",
			[]facade.ImageDetails{{RegistryPath: "a.example.com/a", Auth: secret("1")}, {RegistryPath: "a.example.com/b", Auth: secret("2")}},
			`{"auths":{"a.example.com":{"auth":"1"}}}`,
		}, {
			"one of two is private",
			[]facade.ImageDetails{{RegistryPath: "a.example.com/a"}, {RegistryPath: "a.example.com/b", Auth: secret("2")}},
			`{"auths":{"a.example.com":{"auth":"2"}}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got, want any
			if err := json.Unmarshal(pullConfig(test.images...), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %s, want %s", pullConfig(test.images...), test.want)
			}
		})
	}
}

// fullConfig has something in every field.
func fullConfig(t testing.TB) *operator.Config {
	t.Helper()
	cfg := operatorConfig(t, "mysql", 1)
	for i, d := range []*facade.ImageDetails{&cfg.ImageDetails, &cfg.BaseImageDetails} {
		n := string(rune('a' + i))
		*d = facade.ImageDetails{
			RegistryPath: "registry.example.com/" + n + ":1", Username: "user-" + n, ServerAddress: "https://" + n, Repository: "repository-" + n, Region: "region-" + n,
			Password: facade.NewSecret("password-" + n), Auth: facade.NewSecret("auth-" + n),
			IdentityToken: facade.NewSecret("identity-" + n), RegistryToken: facade.NewSecret("registry-" + n),
		}
	}
	cfg.CharmStorage = &facade.CharmStorage{
		StorageName: "charm", Size: 1024, Provider: "kubernetes",
		Attributes: map[string]string{attributeClass: "fast"}, ResourceTags: map[string]string{"a": "b"},
	}
	return cfg
}

// TestWhatIsStoredIsReadAgainInFull looks at every field, so that one that is added
// to the types cannot be forgotten here.
func TestWhatIsStoredIsReadAgainInFull(t *testing.T) {
	full := fullConfig(t)
	for _, v := range []any{*full, full.ImageDetails, full.BaseImageDetails, *full.CharmStorage} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
			if reflect.ValueOf(v).FieldByIndex(field.Index).IsZero() && field.Name != "Generation" {
				t.Fatalf("the test's %T has nothing in %s", v, field.Name)
			}
		}
	}
	m := &Manager{config: validConfig().withDefaults()}
	for name, cfg := range map[string]*operator.Config{
		"everything": full, "the least": {AgentConf: full.AgentConf, OperatorInfo: full.OperatorInfo}, "no storage": operatorConfig(t, "mysql", 1),
	} {
		w := wanted{names: namesOf("mysql"), cfg: cfg}
		got := configOf(w.names, m.configSecret(w).Data)
		if !reflect.DeepEqual(got, cfg) {
			t.Errorf("%s: got %+v, want %+v", name, got, cfg)
		}
	}
}

func TestRecordThatIsMissingOrMalformedCostsNothingElse(t *testing.T) {
	n := namesOf("mysql")
	for _, r := range []string{"", "{", "null", `"text"`, `{"Image":7}`} {
		data := map[string][]byte{n.agentConfKey(): []byte("conf"), infoKey: []byte("info")}
		if r != "" {
			data[recordKey] = []byte(r)
		}
		got := configOf(n, data)
		if got.AgentConf.Reveal() != "conf" || got.OperatorInfo.Reveal() != "info" || got.Version != "" {
			t.Errorf("with record %q: %+v", r, got)
		}
	}
	if got := configOf(n, nil); !reflect.DeepEqual(got, &operator.Config{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestOnlyWhatTheOperatorWouldReadIsEffective(t *testing.T) {
	base := operatorConfig(t, "mysql", 1)
	with := func(changes ...func(*agentconf.Config)) *operator.Config {
		return operatorConfig(t, "mysql", 1, changes...)
	}
	addresses := func(a ...string) func(*agentconf.Config) {
		return func(c *agentconf.Config) { c.APIAddresses = a }
	}
	form := func(change func(string) string) *operator.Config {
		cfg := base.Clone()
		cfg.AgentConf = facade.NewSecret(change(cfg.AgentConf.Reveal()))
		return cfg
	}
	info := base.Clone()
	info.OperatorInfo = facade.NewSecret(info.OperatorInfo.Reveal() + "\n")
	rest := fullConfig(t)
	rest.Version = "3"
	for _, test := range []struct {
		name string
		cfg  *operator.Config
		same bool
	}{
		{"itself", operatorConfig(t, "mysql", 1), true},
		{"addresses in another order", with(addresses("[fd00::1]:17070", "10.0.0.2:17070", "10.0.0.1:17070")), true},
		{"an address twice", with(addresses("10.0.0.1:17070", "10.0.0.2:17070", "10.0.0.1:17070", "[fd00::1]:17070")), true},
		{"keys in another order", form(func(s string) string {
			lines := strings.SplitAfter(s, "\n")
			for i, line := range lines {
				if strings.HasPrefix(line, "datadir:") {
					return strings.Join(append(append(lines[:i:i], lines[i+1:]...), line), "")
				}
			}
			return "no datadir"
		}), true},
		{"a remark", form(func(s string) string { return s + "# remark\n" }), true},
		{"text in quotes", form(func(s string) string { return strings.Replace(s, "/var/log/juju", `"/var/log/juju"`, 1) }), true},
		{"images, version, tags and storage, which are elsewhere", rest, true},

		{"another address", with(addresses("10.0.0.1:17070", "10.0.0.2:17070", "[fd00::2]:17070")), false},
		{"one address less", with(addresses("10.0.0.1:17070", "10.0.0.2:17070")), false},
		{"another password", operatorConfig(t, "mysql", 2), false},
		{"a value", with(func(c *agentconf.Config) { c.Values = map[string]string{"a": "b"} }), false},
		{"another log level", with(func(c *agentconf.Config) { c.LoggingConfig = "<root>=DEBUG" }), false},
		{"a key that nobody knows", form(func(s string) string { return s + "unknown: 1\n" }), false},
		{"another form of the info", info, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if same := effective(test.cfg) == effective(base); same != test.same {
				t.Errorf("same = %v; the file is\n%s", same, test.cfg.AgentConf.Reveal())
			}
		})
	}
}

func TestFilesThatAreNoneCountAsTheyAre(t *testing.T) {
	seen := make(map[string]bool)
	for _, conf := range []string{"a", "a ", "- list", "# format 2.0\n{"} {
		cfg := &operator.Config{AgentConf: facade.NewSecret(conf), OperatorInfo: facade.NewSecret("x")}
		if seen[effective(cfg)] || effective(cfg) != effective(cfg.Clone()) {
			t.Errorf("%q counts as another", conf)
		}
		seen[effective(cfg)] = true
	}
}

func TestSealedContentsTellADifferenceAndNothingElse(t *testing.T) {
	data := map[string][]byte{"a": []byte("canary-51c7"), "b": []byte("other"), "empty": {}}
	once := sealed(data)
	for key, value := range once {
		if strings.Contains(string(value), "canary") || strings.Contains(string(value), "other") || string(value) == "" {
			t.Errorf("%s is %q", key, value)
		}
	}
	if string(data["a"]) != "canary-51c7" {
		t.Error("the original was changed")
	}
	if twice := sealed(once); !reflect.DeepEqual(twice, once) {
		t.Errorf("sealed twice it is %q, and was %q", twice, once)
	}
	if string(seal([]byte("canary-51c7"))) != string(once["a"]) || string(seal([]byte("canary-51c8"))) == string(once["a"]) {
		t.Error("it does not tell a difference")
	}
	if sealed(nil) != nil {
		t.Error("nothing becomes something")
	}
	// What only looks like it is sealed as well.
	if looks := seal([]byte(sealMark + "short")); strings.Contains(string(looks), "short") {
		t.Errorf("%q", looks)
	}
}

func TestCachedSecretHasNoContents(t *testing.T) {
	m := &Manager{config: validConfig().withDefaults()}
	full := fullConfig(t)
	w := wanted{names: namesOf("mysql"), cfg: full}
	for _, secret := range []*corev1.Secret{m.configSecret(w), m.pullSecret(w)} {
		secret.StringData = map[string]string{"more": "canary-more"}
		m.trim(secret)
		text, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range append(secretsOf(full), "canary-more") {
			for _, value := range secret.Data {
				if strings.Contains(string(value), word) {
					t.Errorf("%s has kept %q", secret.Name, word)
				}
			}
			if strings.Contains(string(text), word) {
				t.Errorf("%s shows %q", secret.Name, word)
			}
		}
	}
}

// secretsOf returns what nobody may repeat of a configuration.
func secretsOf(cfg *operator.Config) []string {
	var out []string
	for _, d := range []facade.ImageDetails{cfg.ImageDetails, cfg.BaseImageDetails} {
		for _, s := range []facade.Secret{d.Password, d.Auth, d.IdentityToken, d.RegistryToken} {
			if !s.IsZero() {
				out = append(out, s.Reveal())
			}
		}
	}
	if conf, err := agentconf.Parse([]byte(cfg.AgentConf.Reveal())); err == nil {
		out = append(out, conf.Password().Reveal())
	}
	if info, err := operator.ParseInfo(cfg.OperatorInfo); err == nil {
		out = append(out, info.PrivateKey.Reveal())
	}
	return out
}
