package operator_test

import (
	"fmt"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// The file holds the key as it is; the value that carries it shows nothing.
func ExampleInfo_Marshal() {
	info := operator.Info{Cert: "cert", PrivateKey: facade.NewSecret("key")}
	data, err := info.Marshal()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(data)
	fmt.Print(data.Reveal())
	// Output:
	// [redacted]
	// cert: cert
	// private-key: key
}

func ExampleParseInfo() {
	info, err := operator.ParseInfo(facade.NewSecret("cert: cert\nprivate-key: key\nlater: 1\n"))
	fmt.Println(info.Cert, info.PrivateKey, err)
	// Output: cert [redacted] <nil>
}

// An error names the place and the rule, and repeats nothing of the file.
func ExampleParseInfo_notValid() {
	_, err := operator.ParseInfo(facade.NewSecret("private-key: [key]\n"))
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.NotValid))
	// Output:
	// operator.yaml line 1, private-key (want text) not valid
	// true
}

// What does not serve is replaced, and so is what is due.
func ExampleCheckCertificate() {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	validity, err := operator.CheckCertificate(operator.Info{}, "mysql", "", now)
	switch {
	case err != nil:
		fmt.Println("issue a new one:", err)
	case !now.Before(validity.RenewAt):
		fmt.Println("due: issue a new one")
	default:
		fmt.Println("look again in", validity.RenewAt.Sub(now))
	}
	// Output: issue a new one: operator certificate (does not parse) not valid
}

func ExampleConfig_Validate() {
	c := &operator.Config{AgentConf: facade.NewSecret("# format 2.0\n")}
	fmt.Println(c.Validate())
	// Output: operator config with empty OperatorInfo not valid
}

// A manager that keeps a configuration keeps a clone: its caller owns the
// original.
func ExampleConfig_Clone() {
	c := &operator.Config{ResourceTags: map[string]string{"owner": "a"}}
	kept := c.Clone()
	c.ResourceTags["owner"] = "b"
	fmt.Println(kept.ResourceTags["owner"])
	// Output: a
}
