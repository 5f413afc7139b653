package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/juju/errors"
)

// kvmBed is libvirt as the demo sees it, beside the agent: by its command, by its
// processes, by what guests say on their consoles, and by what it did to the machine.
type kvmBed struct {
	disk string // the image's path
	sum  string // its SHA256
}

// newKVMBed looks for the daemon, which has to be a new one that is there for the demo:
// the demo kills it, and removes all that it has.
func newKVMBed(ctx context.Context, disk string) (*kvmBed, error) {
	if os.Getenv("LIBVIRT_DEFAULT_URI") == "" {
		return nil, errors.New("no LIBVIRT_DEFAULT_URI: this demo is for a libvirt of the test bed (make demo-kvm)")
	}
	file, err := os.Open(disk)
	if err != nil {
		return nil, errors.Annotate(err, "the image of the disk")
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return nil, errors.Annotate(err, "the image of the disk")
	}
	for _, what := range []string{"list --all --name", "pool-list --all --name"} {
		text, err := output(ctx, strings.Fields("virsh --quiet "+what)...)
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(text) != "" {
			return nil, errors.New("libvirt is not as just after its installation, and is let alone")
		}
	}
	return &kvmBed{disk, hex.EncodeToString(sum.Sum(nil))}, nil
}

// guest is libvirt's view of a virtual machine. One that was started again, or made anew,
// is not equal to what it was.
type guest struct {
	uuid, id string
	pid      int
	// autostart tells that it starts with the host.
	autostart bool
}

// guests are all virtual machines that libvirt has.
func (b *kvmBed) guests(ctx context.Context) (map[string]guest, error) {
	names, err := output(ctx, "virsh", "--quiet", "list", "--all", "--name")
	if err != nil {
		return nil, err
	}
	all := map[string]guest{}
	for _, name := range strings.Fields(names) {
		text, err := output(ctx, "virsh", "--quiet", "dominfo", name)
		if err != nil {
			return nil, err
		}
		fields := map[string]string{}
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(line, ":")
			fields[key] = strings.TrimSpace(value)
		}
		g := guest{uuid: fields["UUID"], id: fields["Id"], autostart: fields["Autostart"] == "enable"}
		if fields["State"] == "running" {
			if g.pid, err = readPID("/run/libvirt/qemu/" + name + ".pid"); err != nil {
				return nil, err
			}
		}
		all[name] = g
	}
	return all, nil
}

func readPID(path string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, errors.Trace(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	return pid, errors.Trace(err)
}

// daemon is libvirt's process, once it answers.
func (b *kvmBed) daemon(ctx context.Context) (int, error) {
	if _, err := output(ctx, "virsh", "--quiet", "version", "--daemon"); err != nil {
		return 0, err
	}
	return readPID("/run/libvirt/libvirtd.pid")
}

// files are those of a virtual machine that have to do with what it was told and says.
type files struct{ seed, console string }

func (b *kvmBed) filesOf(ctx context.Context, name string) (files, error) {
	text, err := output(ctx, "virsh", "--quiet", "dumpxml", name)
	if err != nil {
		return files{}, err
	}
	var domain struct {
		Disks []struct {
			Source struct {
				File string `xml:"file,attr"`
			} `xml:"source"`
		} `xml:"devices>disk"`
		Log struct {
			File string `xml:"file,attr"`
		} `xml:"devices>serial>log"`
	}
	if err := xml.Unmarshal([]byte(text), &domain); err != nil {
		return files{}, errors.Annotatef(err, "the definition of %s", name)
	}
	f := files{console: domain.Log.File}
	for _, disk := range domain.Disks {
		if strings.HasSuffix(disk.Source.File, "-seed.iso") {
			f.seed = disk.Source.File
		}
	}
	if f.seed == "" || f.console == "" {
		return files{}, errors.Errorf("%s has the files %+v", name, f)
	}
	return f, nil
}

// said are the lines that a guest wrote on its console, beginning with a word.
func (f files) said(word string) ([]string, error) {
	data, err := os.ReadFile(f.console)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return linesWith(data, word), nil
}

// linesWith are the lines that begin with a word, without it.
func linesWith(data []byte, word string) []string {
	var all []string
	for line := range bytes.Lines(data) {
		if rest, ok := strings.CutPrefix(string(bytes.TrimSpace(line)), word+" "); ok {
			all = append(all, rest)
		}
	}
	return all
}

// addressesOn are the addresses that libvirt's network gave a virtual machine.
func (b *kvmBed) addressesOn(ctx context.Context, name string) ([]string, error) {
	text, err := output(ctx, "virsh", "--quiet", "domifaddr", name, "--source", "lease")
	if err != nil {
		return nil, err
	}
	var all []string
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 4 && f[2] == "ipv4" {
			all = append(all, f[3])
		}
	}
	return all, nil
}

// machineLooks notes whatever libvirt, or an agent that prepares a machine for it, may
// change.
func (b *kvmBed) machineLooks(ctx context.Context) (looks, error) {
	all, err := noteLooks(ctx, map[string]string{
		firewall:   "nft list ruleset",
		"pools":    "virsh --quiet pool-list --all",
		"networks": "virsh --quiet net-list --all",
		"machines": "virsh --quiet list --all",
		"files":    "find /etc/libvirt /var/lib/libvirt/images ! -type d",
		"images":   "find /var/lib/libvirt/images",
	})
	if err == nil {
		all[firewall] = rulesOf(all[firewall])
	}
	return all, err
}

// firewall is the part of looks that has to be read.
const firewall = "firewall"

// rulesOf are the firewall's rules that do something. libvirt makes chains of its own with
// its first network, and leaves them empty.
func rulesOf(ruleset string) string {
	counter := regexp.MustCompile(` ?counter packets \d+ bytes \d+`)
	var rules strings.Builder
	var table, chain string
	for line := range strings.Lines(ruleset) {
		f := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(f, "table "):
			table = f
		case strings.HasPrefix(f, "chain "):
			chain = f
		case f == "", f == "}", strings.HasPrefix(f, "#"), strings.Contains(f, "jump LIBVIRT_"), strings.HasSuffix(f, "policy accept;"):
		default:
			rules.WriteString(table + " " + chain + " " + counter.ReplaceAllString(f, "") + "\n")
		}
	}
	return rules.String()
}

// clear removes what is left in libvirt and on the machine, although ctx has ended.
func (b *kvmBed) clear(ctx context.Context, s *stage) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lxdTimeout)
	defer cancel()
	s.clear() // an agent would make all of it again
	guests, err := b.guests(ctx)
	if err != nil {
		return
	}
	for name := range guests {
		f, err := b.filesOf(ctx, name)
		_, _ = output(ctx, "virsh", "--quiet", "destroy", name)
		_, _ = output(ctx, "virsh", "--quiet", "undefine", name, "--remove-all-storage")
		if err == nil {
			_ = os.Remove(f.seed)
			_ = os.Remove(f.console)
		}
	}
	_, _ = s.host(ctx, "undo")
}
