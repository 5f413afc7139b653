package operator_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// fullConfig has something in every field.
func fullConfig() *operator.Config {
	return &operator.Config{
		ImageDetails:     facade.ImageDetails{RegistryPath: "r/operator:1", Password: facade.NewSecret(canary)},
		BaseImageDetails: facade.ImageDetails{RegistryPath: "r/base:1"},
		Version:          "2.9.49",
		CharmStorage: &facade.CharmStorage{
			StorageName: "charm", Size: 1024, Provider: "kubernetes",
			Attributes:   map[string]string{"storage-class": "fast"},
			ResourceTags: map[string]string{"owner": "a"},
		},
		ResourceTags: map[string]string{"owner": "a"},
		AgentConf:    facade.NewSecret("# format 2.0\noldpassword: " + canary),
		OperatorInfo: facade.NewSecret("private-key: " + canary),
		Generation:   "7",
	}
}

func TestConfigCloneSharesNothingThatChanges(t *testing.T) {
	original := fullConfig()
	clone := original.Clone()
	if !reflect.DeepEqual(clone, original) {
		t.Fatalf("clone %+v of %+v", clone, original)
	}
	clone.CharmStorage.Provider = "changed"
	clone.CharmStorage.Attributes["storage-class"] = "changed"
	clone.CharmStorage.ResourceTags["owner"] = "changed"
	clone.ResourceTags["owner"] = "changed"
	clone.ImageDetails.RegistryPath = "changed"
	clone.Generation = "changed"
	if want := fullConfig(); !reflect.DeepEqual(original, want) {
		t.Errorf("the original is now %+v", original)
	}
}

func TestConfigCloneOfLittle(t *testing.T) {
	if c := (*operator.Config)(nil).Clone(); c != nil {
		t.Errorf("clone of nil is %+v", c)
	}
	c := (&operator.Config{}).Clone()
	if !reflect.DeepEqual(c, &operator.Config{}) {
		t.Errorf("clone of the zero value is %+v", c)
	}
}

func TestConfigValidateNamesTheField(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*operator.Config)
		want   string
	}{
		{"all there", func(*operator.Config) {}, ""},
		{"no storage", func(c *operator.Config) { c.CharmStorage = nil }, ""},
		{"no images, tags, version or generation", func(c *operator.Config) {
			*c = operator.Config{AgentConf: c.AgentConf, OperatorInfo: c.OperatorInfo}
		}, ""},
		{"no agent.conf", func(c *operator.Config) { c.AgentConf = facade.Secret{} }, "empty AgentConf"},
		{"empty agent.conf", func(c *operator.Config) { c.AgentConf = facade.NewSecret("") }, "empty AgentConf"},
		{"no operator.yaml", func(c *operator.Config) { c.OperatorInfo = facade.Secret{} }, "empty OperatorInfo"},
		{"storage of nobody", func(c *operator.Config) { c.CharmStorage.Provider = "" }, "CharmStorage without Provider"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := fullConfig()
			test.change(c)
			checkNotValid(t, c.Validate(), test.want)
		})
	}
	checkNotValid(t, (*operator.Config)(nil).Validate(), "nil operator config")
}

func TestConfigValidateKeepNamesTheField(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*operator.Config)
		want   string
	}{
		{"no files", func(*operator.Config) {}, ""},
		{"a generation alone", func(c *operator.Config) { *c = operator.Config{Generation: c.Generation} }, ""},
		{"agent.conf", func(c *operator.Config) { c.AgentConf = fullConfig().AgentConf }, "keep with AgentConf"},
		{"operator.yaml", func(c *operator.Config) { c.OperatorInfo = fullConfig().OperatorInfo }, "keep with OperatorInfo"},
		{"no generation", func(c *operator.Config) { c.Generation = "" }, "empty Generation"},
		{"storage of nobody", func(c *operator.Config) { c.CharmStorage.Provider = "" }, "CharmStorage without Provider"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := fullConfig()
			c.AgentConf, c.OperatorInfo = facade.Secret{}, facade.Secret{}
			test.change(c)
			checkNotValid(t, c.ValidateKeep(), test.want)
		})
	}
	checkNotValid(t, (*operator.Config)(nil).ValidateKeep(), "nil operator config")
}

// checkNotValid wants no error for an empty rule, and else an errors.NotValid
// that names it and quotes nothing.
func checkNotValid(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("Validate = %v", err)
	case want != "" && (!errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), want)):
		t.Errorf("Validate = %v, want %q", err, want)
	case err != nil && strings.Contains(err.Error(), canary):
		t.Error("the error shows a secret")
	}
}

func TestPrintedConfigShowsNoSecret(t *testing.T) {
	o := operator.Operator{ID: "1", Config: fullConfig()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, v := range []any{o, &o, o.Config, *o.Config} {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, canary) {
				t.Errorf("%s prints %s", verb, got)
			}
		}
	}
}
