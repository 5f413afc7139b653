package demo

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"github.com/juju/errors"
)

// lxdBed is LXD as the demo sees it, beside the agent: by its API, by its command, and by
// what it did to the machine.
type lxdBed struct {
	root   string // LXD's own
	client *http.Client
}

// newLXDBed looks for the daemon, which has to be a new one that is there for the demo:
// the demo kills it, and removes all that it has.
func newLXDBed(ctx context.Context) (*lxdBed, error) {
	b := &lxdBed{root: os.Getenv("LXD_DIR")}
	if b.root == "" {
		return nil, errors.New("no LXD_DIR: this demo is for an LXD of the test bed (make demo-lxd)")
	}
	b.client = &http.Client{Transport: &http.Transport{
		// The daemon will be another one soon.
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", b.socket())
		},
	}}
	instances, err := b.instances(ctx)
	if err != nil {
		return nil, errors.Annotate(err, "LXD")
	}
	var pools []string
	if err := b.get(ctx, "/1.0/storage-pools", &pools); err != nil {
		return nil, errors.Annotate(err, "LXD")
	}
	if len(instances)+len(pools) > 0 {
		return nil, errors.Errorf("LXD in %s is not as just after its installation, and is let alone", b.root)
	}
	return b, nil
}

func (b *lxdBed) socket() string { return filepath.Join(b.root, "unix.socket") }

// get asks LXD.
func (b *lxdBed) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://lxd"+path, nil)
	if err != nil {
		return errors.Trace(err)
	}
	response, err := b.client.Do(request)
	if err != nil {
		return errors.Trace(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return errors.Trace(err)
	}
	var answer struct {
		Error    string          `json:"error"`
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return errors.Annotatef(err, "LXD on %s", path)
	}
	switch {
	case response.StatusCode == http.StatusNotFound:
		return errors.NotFoundf("%s in LXD", path)
	case response.StatusCode != http.StatusOK:
		return errors.Errorf("LXD on %s: %s", path, answer.Error)
	}
	return errors.Trace(json.Unmarshal(answer.Metadata, into))
}

// instance is LXD's view of one. One that was started again, or made anew, is not equal
// to what it was.
type instance struct {
	created string
	pid     int
	made    bool
	running bool
}

// instances are all that LXD has.
func (b *lxdBed) instances(ctx context.Context) (map[string]instance, error) {
	var list []struct {
		Name      string            `json:"name"`
		CreatedAt string            `json:"created_at"`
		Status    string            `json:"status"`
		Config    map[string]string `json:"config"`
		State     struct {
			PID int `json:"pid"`
		} `json:"state"`
	}
	if err := b.get(ctx, "/1.0/instances?recursion=2", &list); err != nil {
		return nil, err
	}
	all := map[string]instance{}
	for _, i := range list {
		all[i.Name] = instance{i.CreatedAt, i.State.PID, i.Config["user.sutler.made"] != "", i.Status == "Running"}
	}
	return all, nil
}

// daemon is the process that listens on LXD's socket.
func (b *lxdBed) daemon(ctx context.Context) (int, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", b.socket())
	if err != nil {
		return 0, errors.Trace(err)
	}
	defer conn.Close()
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.Errorf("connection of type %T", conn)
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return 0, errors.Trace(err)
	}
	var peer *syscall.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) {
		peer, peerErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return 0, errors.Trace(err)
	}
	if peerErr != nil {
		return 0, errors.Annotate(peerErr, "who listens")
	}
	return int(peer.Pid), nil
}

// in runs a command in an instance and returns what it printed.
func (b *lxdBed) in(ctx context.Context, name string, args ...string) (string, error) {
	return output(ctx, append([]string{"lxc", "exec", name, "--"}, args...)...)
}

// machineLooks notes whatever LXD, or an agent that prepares a machine for it, may change.
func (b *lxdBed) machineLooks(ctx context.Context) (looks, error) {
	return noteLooks(ctx, map[string]string{
		"firewall":  "nft list ruleset",
		"pools":     "lxc query /1.0/storage-pools?recursion=1",
		"networks":  "lxc query /1.0/networks?recursion=1",
		"profiles":  "lxc query /1.0/profiles?recursion=1",
		"instances": "lxc query /1.0/instances",
		"images":    "lxc image list --format csv --columns fl",
		"settings":  "lxc config show",
	})
}

// addressesOn are the addresses of an instance, which LXD's bridge gave it.
func (b *lxdBed) addressesOn(ctx context.Context, name string) ([]string, error) {
	var state struct {
		Network map[string]struct {
			Addresses []struct {
				Family  string `json:"family"`
				Address string `json:"address"`
				Scope   string `json:"scope"`
			} `json:"addresses"`
		} `json:"network"`
	}
	if err := b.get(ctx, "/1.0/instances/"+name+"/state", &state); err != nil {
		return nil, err
	}
	var all []string
	for _, a := range state.Network["eth0"].Addresses {
		if a.Family == "inet" && a.Scope == "global" {
			all = append(all, a.Address)
		}
	}
	return all, nil
}

// clear removes what is left in LXD and on the machine, although ctx has ended.
func (b *lxdBed) clear(ctx context.Context, s *stage) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lxdTimeout)
	defer cancel()
	s.clear() // an agent would make all of it again
	instances, err := b.instances(ctx)
	if err != nil {
		return
	}
	for name := range instances {
		_, _ = output(ctx, "lxc", "delete", "--force", name)
	}
	_, _ = output(ctx, s.program, "host", "undo", "--model", s.dir)
}
