package agentconf_test

import (
	"fmt"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// A fresh operator's file: its first password is the old one.
func ExampleConfig_Render() {
	c := &agentconf.Config{
		Tag:               agentconf.TagForApplication("mysql"),
		DataDir:           "/var/lib/juju",
		LogDir:            "/var/log/juju",
		UpgradedToVersion: "2.9.49",
		CACert:            "-----BEGIN CERTIFICATE-----\n...\n-----END CERTIFICATE-----\n",
		ControllerUUID:    "deadbeef-1bad-500d-9000-4b1d0d06f00d",
		ModelUUID:         "deadbeef-0bad-400d-8000-4b1d0d06f00d",
		APIAddresses:      []string{"10.0.0.1:17070"},
		OldPassword:       facade.NewSecret("b4Yl2Xq9zT7hUw3EoKcR5mNd"),
	}
	data, err := c.Render()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(data))
	// Output:
	// # format 2.0
	// tag: application-mysql
	// datadir: /var/lib/juju
	// transient-datadir: /var/run/juju
	// logdir: /var/log/juju
	// metricsspooldir: /var/lib/juju/metricspool
	// upgradedToVersion: 2.9.49
	// cacert: |
	//   -----BEGIN CERTIFICATE-----
	//   ...
	//   -----END CERTIFICATE-----
	// controller: controller-deadbeef-1bad-500d-9000-4b1d0d06f00d
	// model: model-deadbeef-0bad-400d-8000-4b1d0d06f00d
	// apiaddresses:
	//   - 10.0.0.1:17070
	// oldpassword: b4Yl2Xq9zT7hUw3EoKcR5mNd
	// values: {}
}

// A configuration that no agent can work with is not rendered.
func ExampleConfig_Validate() {
	c := &agentconf.Config{Tag: "application-mysql"}
	err := c.Validate()
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.NotValid))
	// Output:
	// agent config: DataDir (empty) not valid
	// true
}

// Reading back which password an agent logs in with.
func ExampleParse() {
	c, err := agentconf.Parse([]byte(`# format 2.0
tag: application-mysql
oldpassword: b4Yl2Xq9zT7hUw3EoKcR5mNd
values: {}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Tag, c.Password(), c.Password().IsZero())
	// Output: application-mysql [redacted] false
}

// An error names the place and the rule, and repeats nothing of the file.
func ExampleParse_notValid() {
	_, err := agentconf.Parse([]byte("# format 2.0\noldpassword: [hunter2]\n"))
	fmt.Println(err)
	// Output: agent.conf line 2, oldpassword (want text) not valid
}

// What an agent, or a later version of this package, has put into its file
// outlives a change of the addresses.
func ExampleConfig_Clone() {
	stored, err := agentconf.Parse([]byte("# format 2.0\nnonce: n1\nlater-key: [1, 2]\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	updated := stored.Clone()
	updated.APIAddresses = []string{"10.0.0.2:17070"}
	fmt.Println(stored.APIAddresses, updated.APIAddresses, updated.Nonce)
	// Output: [] [10.0.0.2:17070] n1
}

func ExampleTagForApplication() {
	fmt.Println(agentconf.TagForApplication("mysql"))
	// Output: application-mysql
}

// A password of white space is none.
func ExampleConfig_Password() {
	c := &agentconf.Config{APIPassword: facade.NewSecret(" "), OldPassword: facade.NewSecret("first")}
	fmt.Println(c.Password().Equal(facade.NewSecret("first")))
	// Output: true
}
