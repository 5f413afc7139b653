package cloudinit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
	"github.com/sutler-dev/sutler/containersetup/backends/internal/cloudinit"
	"github.com/sutler-dev/sutler/facade"
)

func interfaces() []facade.NetworkInterface {
	return []facade.NetworkInterface{
		{Name: "eth0", MAC: "52:54:00:00:00:0A"},
		{Name: "eth1", MAC: "52:54:00:00:00:0b", MTU: 1400, Addresses: []string{"10.0.0.2/24", "fd00::2/64"}, Gateway: "10.0.0.1"},
		{Name: "eth2", MAC: "52:54:00:00:00:0c", Addresses: []string{"fd01::2/64"}, Gateway: "fd01::1", DNS: []string{"fd01::1"}},
	}
}

const byName = `version: 2
ethernets:
    eth0:
        dhcp4: true
    eth1:
        dhcp4: false
        addresses:
            - 10.0.0.2/24
            - fd00::2/64
        routes:
            - to: 0.0.0.0/0
              via: 10.0.0.1
        nameservers:
            addresses:
                - 9.9.9.9
        mtu: 1400
    eth2:
        dhcp4: false
        addresses:
            - fd01::2/64
        routes:
            - to: ::/0
              via: fd01::1
        nameservers:
            addresses:
                - fd01::1
`

func TestANetworkIsConfigured(t *testing.T) {
	got, err := cloudinit.Network(cloudinit.Config{Interfaces: interfaces(), DNS: []string{"9.9.9.9"}})
	if diff := cmp.Diff(byName, string(got)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	got, err = cloudinit.Network(cloudinit.Config{Interfaces: interfaces()[:1], ByMAC: true})
	const want = `version: 2
ethernets:
    eth0:
        match:
            macaddress: 52:54:00:00:00:0a
        set-name: eth0
        dhcp4: true
`
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestInterfacesThatCannotBeAreRefused(t *testing.T) {
	for field, change := range map[string]func([]facade.NetworkInterface){
		"Interfaces[1]: Name":         func(i []facade.NetworkInterface) { i[1].Name = "" },
		`Interfaces[1]: name "eth0"`:  func(i []facade.NetworkInterface) { i[1].Name = "eth0" },
		`Interfaces[1]: MAC ""`:       func(i []facade.NetworkInterface) { i[1].MAC = "" },
		`Interfaces[1]: MAC "52:54`:   func(i []facade.NetworkInterface) { i[1].MAC = "52:54:00:00:00:0a" },
		`Interfaces[2]: interface "e`: func(i []facade.NetworkInterface) { i[2].Addresses = []string{"fd01::2"} },
	} {
		list := interfaces()
		change(list)
		_, err := cloudinit.Network(cloudinit.Config{Interfaces: list, ByMAC: true})
		if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestAddressesAreReadAsTheyWereWritten(t *testing.T) {
	data, err := cloudinit.Network(cloudinit.Config{Interfaces: interfaces(), DNS: []string{"9.9.9.9"}})
	if err != nil {
		t.Fatal(err)
	}
	var bare []facade.NetworkInterface
	for _, i := range interfaces() {
		bare = append(bare, facade.NetworkInterface{Name: i.Name, MAC: i.MAC, MTU: i.MTU})
	}
	bare = append(bare, facade.NetworkInterface{Name: "eth9", Gateway: "10.0.0.9"})
	want := append(interfaces(), bare[3])
	want[1].DNS = []string{"9.9.9.9"}
	if diff := cmp.Diff(want, cloudinit.Addressed(bare, data)); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"", "what?", "[", "ethernets: 3"} {
		if diff := cmp.Diff(bare, cloudinit.Addressed(bare, []byte(text))); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestResolversThatOnlyTheHostReachesAreLeftOut(t *testing.T) {
	const first, second = "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"none":             {},
		"some":             {files: map[string]string{first: "# x\nsearch a b\nnameserver 10.0.0.1\nnameserver\tfd00::1\n"}, want: []string{"10.0.0.1", "fd00::1"}},
		"a stub":           {files: map[string]string{first: "nameserver 127.0.0.53\n", second: "nameserver 10.0.0.2"}, want: []string{"10.0.0.2"}},
		"no file but that": {files: map[string]string{second: "nameserver 10.0.0.2"}, want: []string{"10.0.0.2"}},
		"nothing of use":   {files: map[string]string{first: "nameserver\nnameserver x\nnameserver ::1\nnameserver fe80::1%eth0\nnameserver 0.0.0.0\n"}},
	} {
		var h hosttest.Host
		for path, text := range test.files {
			h.SetFile(path, text)
		}
		if diff := cmp.Diff(test.want, cloudinit.Resolvers(t.Context(), &h)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
