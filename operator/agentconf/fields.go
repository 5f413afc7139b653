package agentconf

import "github.com/sutler-dev/sutler/facade"

// field ties a key of the file to its field of [Config]. Exactly one of text,
// secret, list and values is set.
type field struct {
	key, name string

	text   func(*Config) *string
	secret func(*Config) *facade.Secret
	list   func(*Config) *[]string
	values func(*Config) *map[string]string

	// prefix stands before the text in the file only.
	prefix string
	// fallback is rendered for an empty text.
	fallback string
	// always says that the key is rendered when there is nothing in it.
	always bool
}

// fields are all known keys, in the order in which they are rendered.
var fields = []field{
	{key: "tag", name: "Tag", text: func(c *Config) *string { return &c.Tag }},
	{key: "datadir", name: "DataDir", text: func(c *Config) *string { return &c.DataDir }},
	{key: "transient-datadir", name: "TransientDataDir", fallback: DefaultTransientDataDir,
		text: func(c *Config) *string { return &c.TransientDataDir }},
	{key: "logdir", name: "LogDir", text: func(c *Config) *string { return &c.LogDir }},
	{key: "metricsspooldir", name: "MetricsSpoolDir", fallback: DefaultMetricsSpoolDir,
		text: func(c *Config) *string { return &c.MetricsSpoolDir }},
	{key: "nonce", name: "Nonce", text: func(c *Config) *string { return &c.Nonce }},
	{key: "jobs", name: "Jobs", list: func(c *Config) *[]string { return &c.Jobs }},
	{key: "upgradedToVersion", name: "UpgradedToVersion", always: true,
		text: func(c *Config) *string { return &c.UpgradedToVersion }},
	{key: "cacert", name: "CACert", text: func(c *Config) *string { return &c.CACert }},
	{key: "controller", name: "ControllerUUID", prefix: "controller-",
		text: func(c *Config) *string { return &c.ControllerUUID }},
	{key: "model", name: "ModelUUID", prefix: "model-",
		text: func(c *Config) *string { return &c.ModelUUID }},
	{key: "apiaddresses", name: "APIAddresses", list: func(c *Config) *[]string { return &c.APIAddresses }},
	{key: "apipassword", name: "APIPassword", secret: func(c *Config) *facade.Secret { return &c.APIPassword }},
	{key: "oldpassword", name: "OldPassword", secret: func(c *Config) *facade.Secret { return &c.OldPassword }},
	{key: "loggingconfig", name: "LoggingConfig", text: func(c *Config) *string { return &c.LoggingConfig }},
	{key: "values", name: "Values", always: true,
		values: func(c *Config) *map[string]string { return &c.Values }},
}

// fieldOf returns the field of a key, or nil for one that is not known.
func fieldOf(key string) *field {
	for i := range fields {
		if fields[i].key == key {
			return &fields[i]
		}
	}
	return nil
}

// texts returns everything that the field holds, without prefix and fallback.
func (f *field) texts(c *Config) []string {
	switch {
	case f.text != nil:
		return []string{*f.text(c)}
	case f.secret != nil:
		return []string{f.secret(c).Reveal()}
	case f.list != nil:
		return *f.list(c)
	}
	var out []string
	for k, v := range *f.values(c) {
		out = append(out, k, v)
	}
	return out
}
