package model

import (
	"reflect"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

func TestSettingsAreRead(t *testing.T) {
	got, err := ParseSettings("model.yaml", []byte("name: shop\nuuid: 9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e\nversion: 2.10\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{Name: "shop", UUID: "9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e", Version: "2.10", CertificateLife: DefaultCertificateLife}
	if got != want {
		t.Errorf("got %+v, want %+v (an unquoted 2.10 is not the number 2.1)", got, want)
	}
}

func TestMalformedSettingsNameFileLineAndRule(t *testing.T) {
	const id = "uuid: 9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e\n"
	for name, test := range map[string]struct{ text, want string }{
		"empty":           {"", "m:1: name: " + wantName},
		"comment only":    {"# later\n", "m:1: name: " + wantName},
		"no uuid":         {"name: shop\n", "m:1: uuid: " + wantUUID},
		"bad uuid":        {"name: shop\nuuid: 12\n", "m:2: uuid: " + wantUUID},
		"bad name":        {id + "name: My Shop\n", "m:2: name: " + wantName},
		"bad version":     {id + "name: shop\nversion: latest\n", "m:3: version: " + wantVersion},
		"no time":         {id + "name: shop\ncertificate-life: soon\n", "m:3: certificate-life: " + wantSpan},
		"a short time":    {id + "name: shop\ncertificate-life: 9s\n", "m:3: certificate-life: " + wantSpan},
		"a long time":     {id + "name: shop\ncertificate-life: 8761h\n", "m:3: certificate-life: " + wantSpan},
		"unknown key":     {id + "name: shop\nregion: x\n", "m:3: region: unknown key (want one of name, uuid, version, certificate-life)"},
		"key twice":       {id + "name: shop\nname: shop\n", "m:3: name: is there twice"},
		"a list":          {"- name\n", "m:1: want a mapping (key: value), not a list"},
		"a text":          {"shop\n", "m:1: want a mapping (key: value), not a text"},
		"key is a list":   {"? [a]\n: b\n", "m:1: want a text as key, not a list"},
		"name is a list":  {id + "name: [shop]\n", "m:2: name: want a text, not a list"},
		"an alias":        {"name: &n shop\nuuid: *n\n", "m:2: uuid: want a text, not an alias (write it out)"},
		"two documents":   {id + "name: shop\n---\nname: shop\n", "m:3: want one document, here begins another"},
		"a control byte":  {id + "name: \"a\\eb\"\n", "m:2: name: want one line without control characters"},
		"a long text":     {id + "name: " + strings.Repeat("n", MaxText+1), "m:2: name: want at most 1024 bytes"},
		"not UTF-8":       {id + "name: \xff\n", "m:1: want UTF-8 text"},
		"bracket open":    {id + "name: [shop\n", "m:2: " + syntaxRule},
		"bracket at end":  {id + "name: [\n", "m:3: " + syntaxRule},
		"brace open":      {id + "#\n#\nname: {a: b\n", "m:4: " + syntaxRule},
		"indented":        {id + "name: shop\n  version: 1\n", "m:3: " + syntaxRule},
		"outdented":       {id + "name:\n  - a\n b: c\n", "m:4: " + syntaxRule},
		"tab for indent":  {id + "name:\n\tshop\n", "m:3: " + syntaxRule},
		"first line":      {"name: 'shop\n", "m:2: " + syntaxRule},
		"unprintable key": {"\"\\a\": b\n", `m:1: "\a": unknown key (want one of name, uuid, version, certificate-life)`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseSettings("m", []byte(test.text))
			checkProblem(t, err, test.want)
		})
	}
}

func TestApplicationIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		life facade.Life
		info facade.OperatorProvisioningInfo
	}{
		"empty file: alive, all by default": {"", facade.Alive, facade.OperatorProvisioningInfo{}},
		"blank values are as left out":      {"life:\ntags:\naddresses:\nstorage:\n", facade.Alive, facade.OperatorProvisioningInfo{}},
		"dying":                             {"life: dying\n", facade.Dying, facade.OperatorProvisioningInfo{}},
		"everything": {`
life: dead
version: 3.0-beta1
image: registry.example.com/jujusolutions/jujud-operator:3.0
tags: {juju-app: db, count: 3}
storage: {name: data, size: 2048, provider: rootfs, attributes: {fast: true}}
addresses:
- 10.0.0.1:17070
- "[::1]:17070"
`, facade.Dead, facade.OperatorProvisioningInfo{
			ImageDetails: facade.ImageDetails{RegistryPath: "registry.example.com/jujusolutions/jujud-operator:3.0"},
			Version:      "3.0-beta1",
			APIAddresses: []string{"10.0.0.1:17070", "[::1]:17070"},
			Tags:         map[string]string{"juju-app": "db", "count": "3"},
			CharmStorage: &facade.CharmStorage{
				StorageName: "data", Size: 2048, Provider: "rootfs", Attributes: map[string]string{"fast": "true"},
			},
		}},
		"storage has a name by default": {"storage: {size: 1, provider: rootfs}\n", facade.Alive, facade.OperatorProvisioningInfo{
			CharmStorage: &facade.CharmStorage{StorageName: "charm", Size: 1, Provider: "rootfs"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			life, info, err := ParseApplication("a", []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if life != test.life || !reflect.DeepEqual(info, test.info) {
				t.Errorf("got %s %+v, want %s %+v", life, info, test.life, test.info)
			}
		})
	}
}

func TestMalformedApplicationNamesFileLineAndRule(t *testing.T) {
	const anyKey = "unknown key (want one of life, version, image, tags, storage, addresses)"
	for name, test := range map[string]struct{ text, want string }{
		"misspelt life":        {"version: 2.9.49\nlife: alife\n", "a:2: life: " + wantLife},
		"life with a capital":  {"life: Alive\n", "a:1: life: " + wantLife},
		"misspelt key":         {"\nlive: alive\n", "a:2: live: " + anyKey},
		"long key":             {strings.Repeat("k", 99) + ": 1\n", "a:1: " + strings.Repeat("k", 40) + "...: " + anyKey},
		"address without port": {"addresses:\n- a:1\n- b\n", "a:3: addresses: " + wantAddress},
		"address with port 0":  {"addresses: ['a:0']\n", "a:1: addresses: " + wantAddress},
		"address is nothing":   {"addresses:\n-\n", "a:2: addresses: want a text, not nothing"},
		"addresses is a text":  {"addresses: a:1\n", "a:1: addresses: want a list, not a text"},
		"tags is a list":       {"tags: [a]\n", "a:1: want a mapping (key: value), not a list"},
		"tag is a mapping":     {"tags:\n  a: {b: c}\n", "a:2: tags: a: want a text, not a mapping"},
		"tag without a name":   {"tags: {'': b}\n", "a:1: tags: want keys that are not empty"},
		"no provider":          {"storage:\n  size: 1\n", "a:2: provider: want the kind of storage"},
		"no size":              {"storage:\n  provider: rootfs\n", "a:2: size: want a size in MiB"},
		"size is negative":     {"storage: {provider: p, size: -1}\n", "a:1: size: want a whole number from 1 to 1073741824"},
		"size has a unit":      {"storage:\n  provider: p\n  size: 1G\n", "a:3: size: want a whole number from 1 to 1073741824"},
		"unknown storage key":  {"storage: {provider: p, size: 1, pool: x}\n", "a:1: pool: unknown key (want one of name, size, provider, attributes)"},
		"version is a text":    {"version: newest\n", "a:1: version: " + wantVersion},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ParseApplication("a", []byte(test.text))
			checkProblem(t, err, test.want)
		})
	}
}

func TestCharmFormatFollowsFromSeriesAndBases(t *testing.T) {
	const bases = `
charmcraft-started-at: '2022-05-03T09:00:00Z'
bases:
- name: ubuntu
  channel: '20.04'
  architectures: [amd64, arm64]
analysis: {attributes: [{name: language, result: python}]}
`
	for name, test := range map[string]struct {
		metadata, manifest string
		format             int
	}{
		"series, no manifest":   {"name: a\nseries: [kubernetes]\n", "", 1},
		"series and bases":      {"name: a\nseries: [kubernetes]\n", bases, 1},
		"bases alone":           {"name: a\nsummary: |\n  Two\n  lines.\n", bases, 2},
		"neither":               {"name: a\n", "", 1},
		"manifest with no base": {"name: a\n", "bases: []\n", 1},
		"aliases elsewhere":     {"name: a\nrequires: &r {db: {interface: x}}\nprovides: *r\n", bases, 2},
	} {
		t.Run(name, func(t *testing.T) {
			info, err := parseCharm("metadata", []byte(test.metadata), "manifest", []byte(test.manifest))
			if err != nil {
				t.Fatal(err)
			}
			if info.Name != "a" || info.Format() != test.format {
				t.Errorf("got %+v of format %d, want %d", info, info.Format(), test.format)
			}
		})
	}
}

func TestMalformedCharmNamesFileLineAndRule(t *testing.T) {
	for name, test := range map[string]struct{ metadata, manifest, want string }{
		"no name":           {"summary: x\n", "", "metadata:1: name: want the charm's name"},
		"series is a text":  {"name: a\nseries: kubernetes\n", "", "metadata:2: series: want a list, not a text"},
		"empty series":      {"name: a\nseries: ['']\n", "", "metadata:2: series: want names that are not empty"},
		"base has no name":  {"name: a\n", "bases:\n- channel: x\n", "manifest:2: name: want the base's name"},
		"base is a text":    {"name: a\n", "bases:\n- ubuntu\n", "manifest:2: want a mapping (key: value), not a text"},
		"bases is no list":  {"name: a\n", "bases: {name: ubuntu}\n", "manifest:1: bases: want a list, not a mapping"},
		"manifest not YAML": {"name: a\n", "bases: }\n", "manifest:1: " + syntaxRule},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseCharm("metadata", []byte(test.metadata), "manifest", []byte(test.manifest))
			checkProblem(t, err, test.want)
		})
	}
}

// checkProblem holds err to be a Problem with that text.
func checkProblem(t *testing.T, err error, want string) {
	t.Helper()
	var p *Problem
	if !errors.As(err, &p) || !errors.Is(err, errors.NotValid) {
		t.Fatalf("got %v, want a problem that is NotValid", err)
	}
	if p.Error() != want {
		t.Errorf("got  %s\nwant %s", p.Error(), want)
	}
}
