package hostnet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
)

// Warnings returns, one line each, what on this host keeps containers under a bridge from
// the network although nothing is wrong with the bridge: a firewall of others that drops
// what is forwarded, while the kernel hands it what only passes a bridge. It looks, and
// touches nothing: the rules are somebody else's.
func (b *Bridger) Warnings(ctx context.Context) ([]string, error) {
	var out []string
	for _, family := range []struct{ sysctl, tool, nft string }{
		{"bridge-nf-call-iptables", "iptables", "ip"},
		{"bridge-nf-call-ip6tables", "ip6tables", "ip6"},
	} {
		on, err := b.look(ctx, "cat", "/proc/sys/net/bridge/"+family.sysctl)
		if err != nil {
			return out, err
		}
		if strings.TrimSpace(on) != "1" {
			continue
		}
		chains, err := b.dropping(ctx, family.tool, family.nft)
		if err != nil {
			return out, err
		}
		for _, chain := range chains {
			out = append(out, fmt.Sprintf("the firewall drops what is forwarded (%s, policy drop) and %s is 1: containers under a bridge may be cut off", chain, family.sysctl))
		}
	}
	return out, nil
}

// look returns what a command prints; nothing when there is no such program, or it fails.
func (b *Bridger) look(ctx context.Context, args ...string) (string, error) {
	out, err := b.config.Host.Run(ctx, host.Look(args...))
	if _, failed := host.ExitCode(err); failed || errors.Is(err, errors.NotFound) {
		return "", nil
	}
	return string(out.Stdout), errors.Trace(err)
}

// dropping returns the chains that drop what no rule lets through.
func (b *Bridger) dropping(ctx context.Context, tool, family string) ([]string, error) {
	listed, err := b.look(ctx, "nft", "-j", "list", "chains")
	if err != nil {
		return nil, err
	}
	chains := droppingChains([]byte(listed), family)
	rules, err := b.look(ctx, tool, "-S", "FORWARD")
	if err != nil {
		return nil, err
	}
	// Its own chains nft lists as well, unless they are of the older kind.
	for line := range strings.Lines(rules) {
		name := family + " filter FORWARD"
		if strings.TrimSpace(line) == "-P FORWARD DROP" && !slices.Contains(chains, name) {
			chains = append(chains, name)
		}
	}
	return chains, nil
}

// droppingChains reads what nft lists.
func droppingChains(listed []byte, family string) []string {
	var all struct {
		Nftables []struct {
			Chain struct{ Family, Table, Name, Hook, Policy string }
		}
	}
	if json.Unmarshal(listed, &all) != nil {
		return nil
	}
	var out []string
	for _, item := range all.Nftables {
		c := item.Chain
		if c.Hook == "forward" && c.Policy == "drop" && (c.Family == family || c.Family == "inet") {
			out = append(out, strings.Join([]string{c.Family, c.Table, c.Name}, " "))
		}
	}
	return out
}
