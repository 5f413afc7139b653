package facade_test

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// A secret may be printed and logged by whoever does not know that it is one.
func ExampleSecret() {
	p := facade.ApplicationPassword{Name: "mysql", Password: facade.NewSecret("hunter2")}
	fmt.Printf("%+v\n", p)

	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	log.Info("set", "password", p.Password)
	// Output:
	// {Name:mysql Password:[redacted]}
	// level=INFO msg=set password=[redacted]
}

func ExampleSecret_Reveal() {
	s := facade.NewSecret("hunter2")
	fmt.Println(len(s.Reveal()), "characters")
	// Output: 7 characters
}

func ExampleSecret_Equal() {
	s := facade.NewSecret("hunter2")
	fmt.Println(s.Equal(facade.NewSecret("hunter2")), s.Equal(facade.Secret{}))
	// Output: true false
}

func ExampleLife_Validate() {
	fmt.Println(facade.Dying.Validate())
	fmt.Println(facade.Life("undead").Validate())
	// Output:
	// <nil>
	// life "undead" (want alive, dying or dead) not valid
}

func ExampleValidateApplicationName() {
	fmt.Println(facade.ValidateApplicationName("mysql-router"))
	err := facade.ValidateApplicationName("../mysql")
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.NotValid))
	// Output:
	// <nil>
	// application name "../mysql" not valid
	// true
}

func ExampleValidateAddress() {
	fmt.Println(facade.ValidateAddress("[fd00::1]:17070"))
	fmt.Println(facade.ValidateAddress("10.0.0.1"))
	// Output:
	// <nil>
	// address "10.0.0.1" (want host:port) not valid
}

func ExampleOperatorProvisioningInfo_Validate() {
	i := facade.OperatorProvisioningInfo{Version: "2.9.49", APIAddresses: []string{"10.0.0.1:17070", "10.0.0.2"}}
	fmt.Println(i.Validate())
	// Output: provisioning info: APIAddresses[1]: address "10.0.0.2" (want host:port) not valid
}

func ExampleOperatorCertificate_Validate() {
	c := facade.OperatorCertificate{CACert: "-----BEGIN...", Cert: "-----BEGIN..."}
	fmt.Println(c.Validate())
	// Output: operator certificate with empty PrivateKey not valid
}

func ExampleImageDetails_IsPrivate() {
	image := facade.ImageDetails{RegistryPath: "registry.example.com/operator:2.9.49"}
	fmt.Println(image.IsPrivate())
	image.IdentityToken = facade.NewSecret("token")
	fmt.Println(image.IsPrivate())
	// Output:
	// false
	// true
}

// A charm with a manifest, and no series in its metadata, needs no operator.
func ExampleCharmInfo_Format() {
	fmt.Println(facade.CharmInfo{Series: []string{"kubernetes"}}.Format())
	fmt.Println(facade.CharmInfo{Bases: []facade.Base{{Name: "ubuntu", Channel: "22.04"}}}.Format())
	// Output:
	// 1
	// 2
}
