package model

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// Limits of the machine's part of a model.
const (
	// MaxContainers is how many containers a model may have.
	MaxContainers = 1000
	// MaxUserData is the greatest size of a container's user data, in bytes.
	MaxUserData = 16 << 10
)

// Names of what a model's directory holds for the machine.
const (
	MachineFile   = "machine.yaml"
	ContainersDir = "containers"
)

// DefaultBase is that of a container that names none.
const DefaultBase = "ubuntu@24.04"

// Machine is what machine.yaml says.
type Machine struct {
	ID string
	// Types are those of the containers that the machine can have, each
	// once.
	Types []facade.ContainerType
	// Harvest says which instances are taken away.
	Harvest facade.HarvestMode
	// Settings are those of each type, for its back end.
	Settings map[facade.ContainerType]facade.ContainerManagerConfig
}

// Container is one container of the machine.
type Container struct {
	ID string
	// Err says why the container cannot be read; then nothing below is set.
	Err  error
	Life facade.Life
	// Info has no nonce, which is the controller's to give.
	Info facade.ContainerProvisioningInfo
	// Bridge is the device of the machine that the container is to be on the network
	// of; empty for none.
	Bridge string
	// Retry is any text. Another one than before asks for another attempt.
	Retry string
}

const (
	wantMachine   = "want a machine's id, as in 0"
	wantType      = "want types of containers, as in lxd: lower-case letters and digits, a letter first"
	wantHarvest   = "want none, unknown, destroyed or all"
	wantBase      = "want name@channel, as in " + DefaultBase
	wantImage     = "want an image's alias or fingerprint: letters, digits and, after the first, any of . _ / : -"
	wantDisk      = "want where the image of the disk is: /PATH, file:///PATH, http://... or https://..."
	wantChecksum  = "want the SHA256 of the image, which goes with it: 64 hex digits"
	wantNoSum     = "goes with the image of a container of kvm alone"
	wantBridge    = "want the name of a device of this machine, as in eth0"
	wantContainer = "want a container's file, its id with dashes for slashes, as in 0-lxd-1.yaml"
)

// What back ends know an image by that is named, and its checksum.
const (
	imageAttribute    = "image"
	checksumAttribute = "image-sha256"
)

var (
	baseForm  = regexp.MustCompile(`^([a-z][a-z0-9-]*)@([a-z0-9][a-z0-9./-]*)$`)
	imageForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}$`)
	sumForm   = regexp.MustCompile(`^[0-9A-Fa-f]{64}$`)
	// deviceForm is narrower than the kernel's.
	deviceForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
)

// ParseMachine reads a machine.yaml.
func ParseMachine(file string, data []byte) (*Machine, error) {
	doc, m := open(file, data)
	m.only("id", "containers", "harvest", "settings")

	machine := &Machine{ID: m.text("id"), Harvest: facade.HarvestDestroyed}
	if container.ValidateMachineID(machine.ID) != nil {
		m.reject("id", wantMachine)
	}
	if m.get("containers") == nil {
		m.reject("containers", "want the types of containers that the machine can have, or []")
	}
	for _, item := range m.texts("containers") {
		t := facade.ContainerType(item.text)
		switch {
		case t.Validate() != nil:
			doc.fail(item.line, "containers: %s", wantType)
		case slices.Contains(machine.Types, t):
			doc.fail(item.line, "containers: want each type once")
		}
		machine.Types = append(machine.Types, t)
	}
	if m.get("harvest") != nil {
		machine.Harvest = facade.HarvestMode(m.text("harvest"))
		if machine.Harvest.Validate() != nil {
			m.reject("harvest", wantHarvest)
		}
	}
	machine.Settings = parseTypeSettings(m.mapping("settings"), machine.Types)
	if err := doc.err(); err != nil {
		return nil, err
	}
	return machine, nil
}

// parseTypeSettings reads what is under "settings".
func parseTypeSettings(m *mapping, types []facade.ContainerType) map[facade.ContainerType]facade.ContainerManagerConfig {
	if m == nil {
		return nil
	}
	settings := map[facade.ContainerType]facade.ContainerManagerConfig{}
	for _, key := range m.keys {
		t := facade.ContainerType(key.Value)
		if !slices.Contains(types, t) {
			m.doc.fail(key.Line, "settings: %s: want one of the types under containers", keyName(key.Value))
		}
		settings[t] = m.pairs(key.Value)
	}
	return settings
}

// ParseContainer reads the file of a container of a type. A container that does not say
// is alive and has the default base.
func ParseContainer(file string, t facade.ContainerType, data []byte) (Container, error) {
	doc, m := open(file, data)
	m.only("life", "base", "image", "image-sha256", "bridge", "constraints", "user-data", "retry")

	c := Container{Life: facade.Alive, Retry: m.text("retry")}
	if m.get("life") != nil {
		c.Life = facade.Life(m.text("life"))
		if c.Life.Validate() != nil {
			m.reject("life", wantLife)
		}
	}
	base := DefaultBase
	if m.get("base") != nil {
		base = m.text("base")
	}
	if parts := baseForm.FindStringSubmatch(base); parts != nil {
		c.Info.Base = facade.Base{Name: parts[1], Channel: parts[2]}
	} else {
		m.reject("base", wantBase)
	}
	if t == container.KVM {
		c.Info.Attributes = parseDisk(m)
	} else {
		c.Info.Attributes = parseImage(m)
	}
	if m.get("bridge") != nil {
		c.Bridge = m.text("bridge")
		if !deviceForm.MatchString(c.Bridge) {
			m.reject("bridge", wantBridge)
		}
	}
	c.Info.Constraints = parseConstraints(m.mapping("constraints"))
	c.Info.UserData = facade.NewSecret(m.block("user-data", MaxUserData))
	if err := doc.err(); err != nil {
		return Container{}, err
	}
	return c, nil
}

// parseImage reads which image a back end has that knows its images by name.
func parseImage(m *mapping) map[string]string {
	if m.get("image-sha256") != nil {
		m.reject("image-sha256", wantNoSum)
	}
	if m.get("image") == nil {
		return nil
	}
	image := m.text("image")
	if !imageForm.MatchString(image) {
		m.reject("image", wantImage)
	}
	return map[string]string{imageAttribute: image}
}

// parseDisk reads where the image of a virtual machine's disk comes from: both or neither
// of address and checksum. A path is a short way to write an address.
func parseDisk(m *mapping) map[string]string {
	if m.get("image") == nil && m.get("image-sha256") == nil {
		return nil
	}
	image, sum := m.text("image"), m.text("image-sha256")
	if strings.HasPrefix(image, "/") {
		image = (&url.URL{Scheme: "file", Path: image}).String()
	}
	if !isAddress(image) {
		m.reject("image", wantDisk)
	}
	if !sumForm.MatchString(sum) {
		m.reject("image-sha256", wantChecksum)
	}
	return map[string]string{imageAttribute: image, checksumAttribute: sum}
}

func isAddress(image string) bool {
	u, err := url.Parse(image)
	switch {
	case err != nil || u.Opaque != "":
		return false
	case u.Scheme == "file":
		return u.Host == "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" && path.IsAbs(u.Path) &&
			!strings.Contains(u.Path, "\x00")
	}
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// parseConstraints reads what is under "constraints".
func parseConstraints(m *mapping) facade.Constraints {
	var c facade.Constraints
	if m == nil {
		return c
	}
	m.only("cores", "memory", "root-disk")
	c.Cores, _ = m.number("cores", 1<<16)
	// In MiB: up to a pebibyte.
	c.Memory, _ = m.number("memory", 1<<30)
	c.RootDisk, _ = m.number("root-disk", 1<<30)
	return c
}

// ContainerFile returns the name, relative to the model's directory, of a
// container's file. Types and numbers have no dashes, so every id has its own.
func ContainerFile(id string) string {
	return path.Join(ContainersDir, strings.ReplaceAll(id, "/", "-")+".yaml")
}

// loadMachine reads the machine and its containers, if there is a machine.yaml.
// When they cannot be read as a whole, that is in MachineErr, and nothing is
// known of any container, least of all that it was removed.
func (m *Model) loadMachine(dir string) {
	data, err := readFile(dir, MachineFile, MaxModelFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var machine *Machine
	if err == nil {
		machine, err = ParseMachine(MachineFile, data)
	}
	var containers map[string]*Container
	if err == nil {
		containers, err = m.loadContainers(dir, machine.ID)
	}
	if err != nil {
		m.MachineErr = err
		m.note(err)
		return
	}
	m.Machine, m.Containers = machine, containers
}

func (m *Model) loadContainers(dir, machine string) (map[string]*Container, error) {
	containers := map[string]*Container{}
	err := forEach(dir, ContainersDir, func(entry fs.DirEntry) error {
		name := entry.Name()
		if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasSuffix(name, "~") {
			return nil // an editor's or a version control's
		}
		id, err := containerID(name, machine)
		if err != nil {
			m.note(err)
			return nil
		}
		if len(containers) == MaxContainers {
			return &Problem{File: ContainersDir, Rule: "want at most " + strconv.Itoa(MaxContainers) + " containers"}
		}
		c, err := LoadContainer(dir, id)
		if errors.Is(err, errors.NotFound) {
			return nil // it was removed while it was being read
		}
		if err != nil {
			c = &Container{ID: id, Err: err}
			m.note(err)
		}
		containers[id] = c
		return nil
	})
	return containers, err
}

// containerID returns the container whose file has that name.
func containerID(name, machine string) (string, error) {
	problem := &Problem{File: path.Join(ContainersDir, name), Rule: wantContainer}
	stem, ok := strings.CutSuffix(name, ".yaml")
	if !ok {
		return "", problem
	}
	id, err := container.ParseID(strings.ReplaceAll(stem, "-", "/"))
	switch {
	case err != nil:
		return "", problem
	case id.Host != machine:
		problem.Rule = "want a container directly on machine " + machine
		return "", problem
	}
	return id.String(), nil
}

// LoadContainer reads one container's file. It returns errors.NotFound when it is
// not there, and a [Problem] when it cannot be read.
func LoadContainer(dir, id string) (*Container, error) {
	file := ContainerFile(id)
	parsed, err := container.ParseID(id)
	if err != nil {
		return nil, err
	}
	data, err := readFile(dir, file, MaxModelFile)
	if errors.Is(err, fs.ErrNotExist) {
		// A link that leads nowhere is there.
		if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(file))); os.IsNotExist(err) {
			return nil, errors.NotFoundf("container %q", id)
		}
	}
	if err != nil {
		return nil, err
	}
	c, err := ParseContainer(file, parsed.Type, data)
	if err != nil {
		return nil, err
	}
	c.ID = id
	return &c, nil
}
