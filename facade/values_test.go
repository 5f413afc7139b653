package facade_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// checkNotValid wants no error for an empty rule, and else an errors.NotValid
// whose text has it.
func checkNotValid(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v, want no error", err)
	case want != "" && !errors.Is(err, errors.NotValid):
		t.Errorf("got %v, want a NotValid", err)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("got %v, want %q in it", err, want)
	}
}

func TestLifeIsOneOfThree(t *testing.T) {
	for _, life := range []facade.Life{facade.Alive, facade.Dying, facade.Dead} {
		checkNotValid(t, life.Validate(), "")
	}
	for _, life := range []facade.Life{"", "Alive", "alive ", "undead", "dead\n"} {
		checkNotValid(t, life.Validate(), "want alive, dying or dead")
	}
	err := facade.Life(strings.Repeat("x", 10_000)).Validate()
	checkNotValid(t, err, `xxx..."`)
	if len(err.Error()) > 200 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func TestApplicationNames(t *testing.T) {
	for _, name := range []string{
		"a", "mysql", "mysql-router", "a1", "a-b-c", "x2y", "a-1b", "a-b1", "a0-0a0",
		strings.Repeat("a", facade.MaxApplicationName),
	} {
		checkNotValid(t, facade.ValidateApplicationName(name), "")
	}
	for _, name := range []string{
		"1a", "-a", "a-", "a--b", "a-1", "A", "mySQL", "a_b", "a.b", "a/b", "../a", "a b", " a", "a\n", "a\x00", "é", "a-é", "\xff",
		"mysql/0", "--help", ".", "..", "~", "$HOME", "a;b", "a\tb",
	} {
		checkNotValid(t, facade.ValidateApplicationName(name), "application name")
	}
	checkNotValid(t, facade.ValidateApplicationName(""), "empty application name")
	err := facade.ValidateApplicationName(strings.Repeat("a", facade.MaxApplicationName+1))
	checkNotValid(t, err, "application name of 201 bytes, over 200,")
	err = facade.ValidateApplicationName(strings.Repeat("A", facade.MaxApplicationName))
	checkNotValid(t, err, `AAA..."`)
}

// FuzzValidateApplicationName holds what the rest of sutler takes for granted of
// a name that passed.
func FuzzValidateApplicationName(f *testing.F) {
	for _, name := range []string{"mysql", "mysql-router", "a-1", "", "../a", "A", "a\n"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := facade.ValidateApplicationName(name)
		if err != nil {
			if !errors.Is(err, errors.NotValid) {
				t.Fatalf("%v is no NotValid", err)
			}
			if len(err.Error()) > 400 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		// A single element of a path, that goes nowhere else.
		if filepath.Base(name) != name || filepath.Clean(name) != name || !filepath.IsLocal(name) || len(name) > 255 {
			t.Fatalf("%q is no file name", name)
		}
		// No option, and nothing that a label or a shell takes as more
		// than text.
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || name[0] == '-' || name[len(name)-1] == '-' {
			t.Fatalf("%q has a character that it should not have", name)
		}
		// "application-1", and the "-0" of an instance, cannot be
		// another's name.
		last := name[strings.LastIndexByte(name, '-')+1:]
		if strings.Trim(last, "0123456789") == "" {
			t.Fatalf("%q ends with a number", name)
		}
	})
}

func TestAddresses(t *testing.T) {
	for _, addr := range []string{"localhost:1", "10.0.0.1:17070", "[fd00::1]:17070", "[fe80::1%eth0]:65535", "controller.example.com:443"} {
		checkNotValid(t, facade.ValidateAddress(addr), "")
	}
	for _, addr := range []string{
		"", "localhost", "10.0.0.1", "fd00::1", "[fd00::1]", "fd00::1:17070", ":17070", "[]:1", "http://a:80", "a:1:2", "[a:1",
		" :1", "a b:1", "a\n:1", "a\x00:1",
	} {
		checkNotValid(t, facade.ValidateAddress(addr), "(want host:port)")
	}
	for _, addr := range []string{"a:", "a:0", "a:-1", "a:+1", "a:65536", "a:http", "a: 1", "a:1 ", "a:0x50", "a:1_0", "a:99999999999999999999"} {
		checkNotValid(t, facade.ValidateAddress(addr), "(want 1 to 65535)")
	}
	if err := facade.ValidateAddress(strings.Repeat("a", 10_000)); len(err.Error()) > 200 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

// provisioningInfo passes.
func provisioningInfo() facade.OperatorProvisioningInfo {
	return facade.OperatorProvisioningInfo{
		ImageDetails: facade.ImageDetails{RegistryPath: "r/operator:1"},
		Version:      "2.9.49",
		APIAddresses: []string{"10.0.0.1:17070", "10.0.0.2:17070"},
		Tags:         map[string]string{"owner": "a"},
		CharmStorage: &facade.CharmStorage{StorageName: "charm", Size: 1024, Provider: "kubernetes"},
	}
}

func TestProvisioningInfoValidateNamesTheField(t *testing.T) {
	type info = facade.OperatorProvisioningInfo
	for _, test := range []struct {
		name   string
		change func(*info)
		want   string
	}{
		{"all there", func(*info) {}, ""},
		{"no storage", func(i *info) { i.CharmStorage = nil }, ""},
		{"a storage provider that nobody knows", func(i *info) { i.CharmStorage.Provider = "tape" }, ""},
		{"no images and tags", func(i *info) { i.ImageDetails, i.Tags = facade.ImageDetails{}, nil }, ""},
		{"no version", func(i *info) { i.Version = "" }, "empty Version"},
		{"no addresses", func(i *info) { i.APIAddresses = nil }, "no APIAddresses"},
		{"empty addresses", func(i *info) { i.APIAddresses = []string{} }, "no APIAddresses"},
		{"an empty address", func(i *info) { i.APIAddresses[0] = "" }, "APIAddresses[0]"},
		{"an address without a port", func(i *info) { i.APIAddresses[1] = "10.0.0.2" }, "APIAddresses[1]"},
		{"storage without a provider", func(i *info) { i.CharmStorage.Provider = "" }, "CharmStorage without Provider"},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := provisioningInfo()
			test.change(&i)
			checkNotValid(t, i.Validate(), test.want)
		})
	}
}

func TestOperatorCertificateValidateNamesTheField(t *testing.T) {
	type certificate = facade.OperatorCertificate
	for _, test := range []struct {
		change func(*certificate)
		want   string
	}{
		{func(*certificate) {}, ""},
		{func(c *certificate) { c.CACert = "" }, "empty CACert"},
		{func(c *certificate) { c.Cert = "" }, "empty Cert"},
		{func(c *certificate) { c.PrivateKey = facade.NewSecret("") }, "empty PrivateKey"},
		{func(c *certificate) { *c = certificate{} }, "empty CACert"},
	} {
		c := certificate{CACert: "ca", Cert: "cert", PrivateKey: facade.NewSecret(canary)}
		test.change(&c)
		err := c.Validate()
		checkNotValid(t, err, test.want)
		if err != nil && strings.Contains(errors.ErrorStack(err), canary) {
			t.Errorf("the key is in %v", err)
		}
	}
}

func TestImageIsPrivateWithAnyCredential(t *testing.T) {
	s := facade.NewSecret(canary)
	for _, test := range []struct {
		image facade.ImageDetails
		want  bool
	}{
		{facade.ImageDetails{}, false},
		{facade.ImageDetails{RegistryPath: "a", ServerAddress: "b", Repository: "c", Region: "d"}, false},
		{facade.ImageDetails{Password: facade.NewSecret("")}, false},
		{facade.ImageDetails{Username: "u"}, true},
		{facade.ImageDetails{Password: s}, true},
		{facade.ImageDetails{Auth: s}, true},
		{facade.ImageDetails{IdentityToken: s}, true},
		{facade.ImageDetails{RegistryToken: s}, true},
	} {
		if got := test.image.IsPrivate(); got != test.want {
			t.Errorf("%+v: %v, want %v", test.image, got, test.want)
		}
	}
}

func TestCharmFormat(t *testing.T) {
	series := []string{"kubernetes"}
	bases := []facade.Base{{Name: "ubuntu", Channel: "22.04"}}
	for _, test := range []struct {
		name string
		info facade.CharmInfo
		want int
	}{
		{"nothing", facade.CharmInfo{}, 1},
		{"series", facade.CharmInfo{Series: series}, 1},
		{"series and bases", facade.CharmInfo{Series: series, Bases: bases}, 1},
		{"bases", facade.CharmInfo{Bases: bases}, 2},
		{"bases and an empty list of series", facade.CharmInfo{Series: []string{}, Bases: bases}, 2},
		{"an empty list of bases", facade.CharmInfo{Bases: []facade.Base{}}, 1},
	} {
		if got := test.info.Format(); got != test.want {
			t.Errorf("%s: format %d, want %d", test.name, got, test.want)
		}
	}
}
