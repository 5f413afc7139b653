package process

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// whole has every field that the record keeps.
func whole() *operator.Config {
	image := facade.ImageDetails{
		RegistryPath:  "registry.example.com/operator:1",
		Username:      "puller",
		Password:      facade.NewSecret("p\xff\x00"), // no text
		Auth:          facade.NewSecret("auth"),
		IdentityToken: facade.NewSecret("identity"),
		RegistryToken: facade.NewSecret("registry"),
		ServerAddress: "registry.example.com",
		Repository:    "registry.example.com/x",
		Region:        "north",
	}
	base := image
	base.RegistryPath = "registry.example.com/base:1"
	return &operator.Config{
		ImageDetails:     image,
		BaseImageDetails: base,
		Version:          "2.9.49",
		CharmStorage: &facade.CharmStorage{
			StorageName: "charm", Size: 1024, Provider: "kubernetes",
			Attributes: map[string]string{"a": "1"}, ResourceTags: map[string]string{"b": "2"},
		},
		ResourceTags: map[string]string{"c": "3"},
	}
}

func TestRecordKeepsTheWholeConfig(t *testing.T) {
	want := record{
		Format: recordFormat, Token: newToken("0123456789abcdef", "mysql"), Ensured: true, Deleting: true,
		Wanted: "w", Started: "s", StartedAt: time.Unix(1_700_000_000, 5).UTC(), Boot: "b",
		Process: &process{Pid: 5, Start: 7},
		Config:  storeConfig(whole()),
	}
	data, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeRecord(data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the record is another one:\n%+v\n%+v", got, want)
	}
	if !reflect.DeepEqual(got.Config.config(), whole()) {
		t.Error("the config is another one")
	}
	// A field that is new in one of these is to be kept, too.
	for of, n := range map[reflect.Type]int{
		reflect.TypeFor[operator.Config]():     8, // three of them beside the record
		reflect.TypeFor[facade.ImageDetails](): 9,
		reflect.TypeFor[storedImage]():         9,
		reflect.TypeFor[storedConfig]():        5,
	} {
		if of.NumField() != n {
			t.Errorf("%v has %d fields, the record knows %d", of, of.NumField(), n)
		}
	}
}

func TestDamagedRecordIsRefusedWithoutQuoting(t *testing.T) {
	const token = `"token":"0011223344556677.00112233445566778899aabbccddeeff.mysql"`
	for name, data := range map[string]string{
		"nothing":          "",
		"no JSON":          "canary",
		"half a record":    `{"format":1,"canary":`,
		"a list":           `["canary"]`,
		"another format":   `{"format":2,` + token + `}`,
		"no format":        `{` + token + `}`,
		"no token":         `{"format":1}`,
		"a foreign token":  `{"format":1,"token":"canary"}`,
		"everybody":        `{"format":1,` + token + `,"process":{"pid":-1}}`,
		"our own group":    `{"format":1,` + token + `,"process":{"pid":0}}`,
		"init":             `{"format":1,` + token + `,"process":{"pid":1}}`,
		"a pid as text":    `{"format":1,` + token + `,"process":{"pid":"canary"}}`,
		"a negative start": `{"format":1,` + token + `,"process":{"pid":5,"start-ticks":-1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeRecord([]byte(data))
			if !errors.Is(err, errors.NotValid) || strings.Contains(err.Error(), "canary") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestEffectiveDigest(t *testing.T) {
	digestOf := func(c *operator.Config) string {
		return effective([]byte(c.AgentConf.Reveal()), []byte(c.OperatorInfo.Reveal()))
	}
	base := digestOf(configWith("mysql", 1, "a:1", "b:2", "c:3"))
	edited := func(old, text string) *operator.Config {
		c := configWith("mysql", 1, "a:1", "b:2", "c:3")
		c.AgentConf = facade.NewSecret(strings.Replace(c.AgentConf.Reveal(), old, text, 1))
		return c
	}
	tagged := configWith("mysql", 1, "a:1", "b:2", "c:3")
	tagged.ResourceTags, tagged.Version, tagged.ImageDetails = nil, "3", facade.ImageDetails{}
	info := configWith("mysql", 1, "a:1", "b:2", "c:3")
	info.OperatorInfo = facade.NewSecret(info.OperatorInfo.Reveal() + " ")
	for _, test := range []struct {
		name string
		c    *operator.Config
		same bool
	}{
		{"the same again", configWith("mysql", 1, "a:1", "b:2", "c:3"), true},
		{"addresses in another order", configWith("mysql", 1, "c:3", "a:1", "b:2"), true},
		{"an address twice", configWith("mysql", 1, "a:1", "b:2", "c:3", "b:2"), true},
		{"no CA", edited("cacert: ca\n", ""), false},
		{"keys in another order", edited("# format 2.0\ntag: application-mysql\ndatadir: /var/lib/juju\n", "# format 2.0\ndatadir: /var/lib/juju\ntag: application-mysql\n"), true},
		{"tags and image", tagged, true},
		{"another form", edited("upgradedToVersion: 2.9.49", `upgradedToVersion: "2.9.49"`), true},
		{"one address less", configWith("mysql", 1, "a:1", "b:2"), false},
		{"another address", configWith("mysql", 1, "a:1", "b:2", "c:4"), false},
		{"another CA", edited("cacert: ca", "cacert: another"), false},
		{"another password", edited("oldpassword: canary-password-1", "oldpassword: another"), false},
		{"another version", edited("2.9.49", "2.9.50"), false},
		{"another value", edited("values: {}", "values: {a: b}"), false},
		{"no agent.conf", edited("# format 2.0", "# format 3.0"), false},
		{"another operator.yaml", info, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if same := digestOf(test.c) == base; same != test.same {
				t.Errorf("same: %v, want %v", same, test.same)
			}
		})
	}
}

func TestRevisionTellsFilesApart(t *testing.T) {
	if got := revision(nil, nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
	seen := make(map[string]int)
	for i, files := range [][2]string{{"a", ""}, {"", "a"}, {"a", "b"}, {"ab", ""}, {"", "ab"}, {"b", "a"}, {"1:a", ""}} {
		rev := revision([]byte(files[0]), []byte(files[1]))
		if j, ok := seen[rev]; ok || rev == "" {
			t.Errorf("%d has the revision of %d", i, j)
		}
		seen[rev] = i
	}
}
