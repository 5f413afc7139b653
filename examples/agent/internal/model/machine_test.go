package model

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// boxes are the types of a machine that can have boxes alone.
func boxes() []facade.ContainerType { return []facade.ContainerType{"box"} }

func TestMachineIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want Machine
	}{
		"the least": {"id: 0\ncontainers: []\n", Machine{ID: "0", Harvest: facade.HarvestDestroyed}},
		"everything": {"id: '3'\ncontainers: [lxd, box]\nharvest: all\nsettings:\n  box:\n    stop-timeout: 2s\n  lxd: {}\n", Machine{
			ID: "3", Types: []facade.ContainerType{"lxd", "box"}, Harvest: facade.HarvestAll,
			Settings: map[facade.ContainerType]facade.ContainerManagerConfig{"box": {"stop-timeout": "2s"}, "lxd": nil},
		}},
		"a host that is a container": {"id: 0/lxd/1\ncontainers: [box]\n", Machine{
			ID: "0/lxd/1", Types: boxes(), Harvest: facade.HarvestDestroyed,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseMachine("m", []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*got, test.want) {
				t.Errorf("got %+v, want %+v", *got, test.want)
			}
		})
	}
}

func TestMalformedMachineNamesFileLineAndRule(t *testing.T) {
	const head = "id: 0\ncontainers: [box]\n"
	for name, test := range map[string]struct{ text, want string }{
		"empty":               {"", "m:1: id: " + wantMachine},
		"id is a name":        {"id: host\ncontainers: []\n", "m:1: id: " + wantMachine},
		"id with a zero":      {"id: 01\ncontainers: []\n", "m:1: id: " + wantMachine},
		"no types":            {"id: 0\n", "m:1: containers: want the types of containers that the machine can have, or []"},
		"types is a text":     {"id: 0\ncontainers: lxd\n", "m:2: containers: want a list, not a text"},
		"type with a capital": {"id: 0\ncontainers:\n- box\n- LXD\n", "m:4: containers: " + wantType},
		"type twice":          {"id: 0\ncontainers: [box, box]\n", "m:2: containers: want each type once"},
		"unknown mode":        {head + "harvest: everything\n", "m:3: harvest: " + wantHarvest},
		"unknown key":         {head + "harvset: all\n", "m:3: harvset: unknown key (want one of id, containers, harvest, settings)"},
		"settings of no type": {head + "settings:\n  lxd: {a: b}\n", "m:4: settings: lxd: want one of the types under containers"},
		"settings is a list":  {head + "settings: [box]\n", "m:3: want a mapping (key: value), not a list"},
		"setting is a list":   {head + "settings:\n  box: {a: [b]}\n", "m:4: box: a: want a text, not a list"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseMachine("m", []byte(test.text))
			checkProblem(t, err, test.want)
		})
	}
}

func TestContainerIsRead(t *testing.T) {
	ubuntu := facade.Base{Name: "ubuntu", Channel: "24.04"}
	for name, test := range map[string]struct {
		text string
		want Container
	}{
		"the least": {"", Container{Life: facade.Alive, Info: facade.ContainerProvisioningInfo{Base: ubuntu}}},
		"everything": {
			"life: dead\nbase: centos@9/stable\nimage: tiny/1.0\nbridge: eth0.5\nconstraints: {cores: 2, memory: 512, root-disk: 8192}\nuser-data: |\n  #cloud-config\n  \tx: y\nretry: 3\n",
			Container{Life: facade.Dead, Bridge: "eth0.5", Retry: "3", Info: facade.ContainerProvisioningInfo{
				Base:        facade.Base{Name: "centos", Channel: "9/stable"},
				Attributes:  map[string]string{"image": "tiny/1.0"},
				Constraints: facade.Constraints{Cores: 2, Memory: 512, RootDisk: 8192},
				UserData:    facade.NewSecret("#cloud-config\n\tx: y\n"),
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseContainer("c", "lxd", []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestMalformedContainerNamesFileLineAndRule(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"misspelt life":         {"life: alife\n", "c:1: life: " + wantLife},
		"misspelt key":          {"\nlive: alive\n", "c:2: live: unknown key (want one of life, base, image, image-sha256, bridge, constraints, user-data, retry)"},
		"base without channel":  {"base: ubuntu\n", "c:1: base: " + wantBase},
		"image is a list":       {"life: alive\nimage: [tiny]\n", "c:2: image: want a text, not a list"},
		"image has a space":     {"\nimage: not one\n", "c:2: image: " + wantImage},
		"image is an option":    {"image: -f\n", "c:1: image: " + wantImage},
		"image is nameless":     {"image: ''\n", "c:1: image: " + wantImage},
		"image is too long":     {"image: " + strings.Repeat("x", 129) + "\n", "c:1: image: " + wantImage},
		"checksum of none":      {"image: tiny\nimage-sha256: x\n", "c:2: image-sha256: " + wantNoSum},
		"bridge is a path":      {"life: alive\nbridge: ../eth0\n", "c:2: bridge: " + wantBridge},
		"bridge is too long":    {"bridge: a123456789012345\n", "c:1: bridge: " + wantBridge},
		"bridge is a mapping":   {"bridge: {eth0: br0}\n", "c:1: bridge: want a text, not a mapping"},
		"cores is a text":       {"constraints:\n  cores: two\n", "c:2: cores: want a whole number from 1 to 65536"},
		"memory has a unit":     {"constraints: {memory: 1G}\n", "c:1: memory: want a whole number from 1 to 1073741824"},
		"unknown constraint":    {"constraints: {disk: 1}\n", "c:1: disk: unknown key (want one of cores, memory, root-disk)"},
		"user data too long":    {"user-data: |\n  " + strings.Repeat("x", MaxUserData) + "\n", "c:1: user-data: want at most 16384 bytes"},
		"user data is a list":   {"user-data: [secret-canary]\n", "c:1: user-data: want a text, not a list"},
		"user data has control": {"user-data: \"secret-canary\\x1b\"\n", "c:1: user-data: want lines without control characters"},
		"retry is a list":       {"retry: []\n", "c:1: retry: want a text, not a list"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseContainer("c", "lxd", []byte(test.text))
			checkProblem(t, err, test.want)
		})
	}
}

func TestDiskOfAVirtualMachineHasAnAddressAndAChecksum(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	for image, want := range map[string]string{
		"/images/disk.qcow2":                     "file:///images/disk.qcow2",
		"/images/a disk #1.img":                  "file:///images/a%20disk%20%231.img",
		"file:///images/disk.qcow2":              "file:///images/disk.qcow2",
		"http://images.example.com/disk.img":     "http://images.example.com/disk.img",
		"https://images.example.com:1/d.img?x=y": "https://images.example.com:1/d.img?x=y",
	} {
		c, err := ParseContainer("c", "kvm", []byte("image: \""+image+"\"\nimage-sha256: "+sum+"\n"))
		if err != nil || !maps.Equal(c.Info.Attributes, map[string]string{"image": want, "image-sha256": sum}) {
			t.Errorf("%s: got %v, %v", image, c.Info.Attributes, err)
		}
	}
	if c, err := ParseContainer("c", "kvm", []byte("life: alive\n")); err != nil || c.Info.Attributes != nil {
		t.Errorf("got %+v, %v", c, err)
	}
	good := "\nimage-sha256: " + sum + "\n"
	for name, test := range map[string]struct{ text, want string }{
		"a name":               {"life: alive\nimage: tiny" + good, "c:2: image: " + wantDisk},
		"a relative path":      {"image: images/disk.img" + good, "c:1: image: " + wantDisk},
		"file of a host":       {"image: file://canary/disk.img" + good, "c:1: image: " + wantDisk},
		"file with a password": {"image: file://u:canary@/disk.img" + good, "c:1: image: " + wantDisk},
		"no host":              {"image: https:///disk.img" + good, "c:1: image: " + wantDisk},
		"no address":           {"image: 'http://%zcanary'" + good, "c:1: image: " + wantDisk},
		"another scheme":       {"image: ftp://h/disk.img" + good, "c:1: image: " + wantDisk},
		"a list":               {"image: [x]" + good, "c:1: image: want a text, not a list"},
		"checksum alone":       {"image-sha256: " + sum + "\n", "c:1: image: " + wantDisk},
		"no checksum":          {"life: alive\nimage: /disk.img\n", "c:1: image-sha256: " + wantChecksum},
		"checksum too short":   {"image: /disk.img\nimage-sha256: 0a\n", "c:2: image-sha256: " + wantChecksum},
		"checksum of others":   {"image: /disk.img\nimage-sha256: " + strings.Repeat("0g", 32) + "\n", "c:2: image-sha256: " + wantChecksum},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseContainer("c", "kvm", []byte(test.text))
			checkProblem(t, err, test.want)
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("it tells a secret: %v", err)
			}
		})
	}
}

func TestModelWithoutAMachineHasNone(t *testing.T) {
	m, err := Load(writeModel(t, map[string]string{
		"model.yaml": settings, "applications/": "", "containers/0-box-0.yaml": "life: what\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if m.Machine != nil || m.MachineErr != nil || len(m.Containers) > 0 || len(m.Problems) > 0 {
		t.Errorf("got %+v", m)
	}
}

func TestMalformedFileCostsItsOwnContainerAlone(t *testing.T) {
	dir := writeModel(t, map[string]string{
		"model.yaml":                       settings,
		"applications/":                    "",
		"machine.yaml":                     "id: 0\ncontainers: [box]\n",
		"containers/0-box-0.yaml":          "",
		"containers/0-lxd-12.yaml":         "life: dying\n",
		"containers/0-box-1.yaml":          "life: alive\ncores: 3\n",
		"containers/0-box-2.yaml/":         "",
		"containers/0-box-3.yaml":          "# " + strings.Repeat("x", MaxModelFile),
		"containers/.0-box-4.yaml.swp":     "an editor's",
		"containers/0-box-4.yaml~":         "an editor's",
		"containers/#0-box-4.yaml#":        "an editor's",
		"containers/0-box-05.yaml":         "",
		"containers/0-Box-5.yaml":          "",
		"containers/notes.txt":             "",
		"containers/1-box-0.yaml":          "",
		"containers/0-kvm-2-lxd-0.yaml":    "",
		"containers/0.yaml":                "",
		"containers/0-box-6.yaml/is/a.dir": "",
	})
	if err := os.Symlink("nowhere", filepath.Join(dir, "containers/0-box-7.yaml")); err != nil {
		t.Fatal(err)
	}
	m, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range m.Problems {
		got = append(got, p.Error())
	}
	want := []string{
		"containers/0-Box-5.yaml: " + wantContainer,
		"containers/0-box-05.yaml: " + wantContainer,
		"containers/0-box-1.yaml:2: cores: unknown key (want one of life, base, image, image-sha256, bridge, constraints, user-data, retry)",
		"containers/0-box-2.yaml: want a regular file",
		"containers/0-box-3.yaml: want a file of at most 64 KiB",
		"containers/0-box-6.yaml: want a regular file",
		"containers/0-box-7.yaml: is not there",
		"containers/0-kvm-2-lxd-0.yaml: want a container directly on machine 0",
		"containers/0.yaml: " + wantContainer,
		"containers/1-box-0.yaml: want a container directly on machine 0",
		"containers/notes.txt: " + wantContainer,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	ids := slices.Sorted(maps.Keys(m.Containers))
	if want := []string{"0/box/0", "0/box/1", "0/box/2", "0/box/3", "0/box/6", "0/box/7", "0/lxd/12"}; !slices.Equal(ids, want) {
		t.Errorf("got containers %v, want %v", ids, want)
	}
	for id, c := range m.Containers {
		good := id == "0/box/0" || id == "0/lxd/12"
		if c.ID != id || good != (c.Err == nil) || !good && !errors.Is(c.Err, errors.NotValid) {
			t.Errorf("%s: got %+v", id, c)
		}
	}
}

func TestMachineThatCannotBeReadLeavesApplicationsAlone(t *testing.T) {
	many := map[string]string{"machine.yaml": "id: 0\ncontainers: [box]\n"}
	for i := range MaxContainers + 1 {
		many["containers/0-box-"+strconv.Itoa(i)+".yaml"] = ""
	}
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"malformed":   {map[string]string{"machine.yaml": "id: 0\ncontainers: [\n", "containers/": ""}, "machine.yaml:3: " + syntaxRule},
		"a directory": {map[string]string{"machine.yaml/": "", "containers/": ""}, "machine.yaml: want a regular file"},
		"no containers/": {map[string]string{"machine.yaml": "id: 0\ncontainers: [box]\n"},
			"containers: is not there"},
		"containers is a file": {map[string]string{"machine.yaml": "id: 0\ncontainers: [box]\n", "containers": ""},
			"containers: cannot be read: not a directory"},
		"too many": {many, "containers: want at most 1000 containers"},
	} {
		t.Run(name, func(t *testing.T) {
			test.files["model.yaml"] = settings
			test.files["applications/db/application.yaml"] = ""
			m, err := Load(writeModel(t, test.files))
			if err != nil {
				t.Fatal(err)
			}
			if m.Machine != nil || len(m.Containers) > 0 || len(m.Problems) != 1 {
				t.Errorf("got %+v", m)
			}
			checkProblem(t, m.MachineErr, test.want)
			if m.Applications["db"] == nil {
				t.Error("the application is lost")
			}
		})
	}
}

func TestContainerFilesAreTold(t *testing.T) {
	for id, want := range map[string]string{"0/lxd/12": "containers/0-lxd-12.yaml", "0/kvm/2/lxd/0": "containers/0-kvm-2-lxd-0.yaml"} {
		if got := ContainerFile(id); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
