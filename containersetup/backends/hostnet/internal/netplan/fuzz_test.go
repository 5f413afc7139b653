package netplan_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/netplan"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan/plantest"
)

// FuzzBridge holds, for any two files:
//
//   - nothing panics, and an error is one line;
//   - what is written parses, and a second run writes nothing;
//   - no comment and no key is lost;
//   - the bridge has what the device had, and nobody else has anything new.
func FuzzBridge(f *testing.F) {
	for _, c := range corpus(f) {
		var second []byte
		if len(c.Before) > 1 {
			second = c.Before[1].Data
		}
		f.Add(c.Before[0].Data, second, c.Bridgings[0].MAC)
	}
	// Keys that are no strings, beside the bridge and beside the device.
	f.Add([]byte("network:\n  ethernets:\n    eth0: {}\n    1: {mtu: 2}\n  bridges:\n    0: {s: 0, 4: }\n"), []byte(nil), "52:54:00:12:34:56")
	f.Fuzz(func(t *testing.T, first, second []byte, mac string) {
		before := []netplan.File{{Name: "/etc/netplan/1.yaml", Data: first}, {Name: "/etc/netplan/2.yaml", Data: second}}
		bridgings := []netplan.Bridging{{Device: "eth0", Bridge: "br-eth0", MAC: mac}}
		changed, err := netplan.Bridge(before, bridgings)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error of more than one line: %q", err)
			}
			if changed != nil {
				t.Errorf("files besides an error")
			}
			return
		}
		after := plantest.Merge(before, changed)
		again, err := netplan.Bridge(after, bridgings)
		if err != nil || len(again) != 0 {
			t.Fatalf("the second run gave %v and %v, want nothing; after the first:\n%s\n---\n%s", again, err, after[0].Data, after[1].Data)
		}
		for i := range before {
			keepsComments(t, string(before[i].Data), string(after[i].Data))
		}
		if len(changed) > 0 {
			keepsMeaning(t, before, after)
		}
	})
}

// keepsComments looks for every line that is a comment and nothing else.
func keepsComments(t *testing.T, before, after string) {
	t.Helper()
	for line := range strings.Lines(before) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") && !strings.Contains(after, line) {
			t.Errorf("comment %q is lost in\n%s", line, after)
		}
	}
}

// keepsMeaning compares the files as any reader of YAML sees them.
func keepsMeaning(t *testing.T, before, after []netplan.File) {
	t.Helper()
	id := ""
	for i := range before {
		var was, is map[string]any
		if yaml.Unmarshal(before[i].Data, &was) != nil {
			return // a key that is a mapping, a number out of range
		}
		if err := yaml.Unmarshal(after[i].Data, &is); err != nil {
			t.Fatalf("the result does not parse: %v\n%s", err, after[i].Data)
		}
		was, is = named(was).(map[string]any), named(is).(map[string]any)
		bridge := at(is, "bridges")["br-eth0"]
		delete(at(is, "bridges"), "br-eth0")
		b, _ := bridge.(map[string]any)
		if list, ok := b["interfaces"].([]any); ok {
			id, _ = list[0].(string)
		}
		for _, key := range []string{"interfaces", "macaddress", "parameters", "renderer"} {
			delete(b, key)
		}
		device, port := take(was, id), take(is, id)
		for key, v := range device {
			onBridge, moved := b[key]
			onPort, stayed := port[key]
			if moved && !reflect.DeepEqual(v, onBridge) || stayed && !reflect.DeepEqual(v, onPort) || !moved && !stayed {
				t.Errorf("%s was %v, is %v on the bridge and %v on the device", key, v, onBridge, onPort)
			}
		}
		for key := range b {
			if _, ok := device[key]; !ok {
				t.Errorf("the bridge has %s from nowhere", key)
			}
		}
		if !reflect.DeepEqual(prune(was), prune(is)) {
			t.Errorf("others changed: %v is now %v", was, is)
		}
	}
}

// named makes every key of every mapping a string: one that YAML reads as a
// number, a date or a truth value has its type before it, to clash with no
// string.
func named(v any) any {
	out := make(map[string]any)
	switch v := v.(type) {
	case map[string]any:
		for key, v := range v {
			out[key] = named(v)
		}
	case map[any]any:
		for key, v := range v {
			if s, ok := key.(string); ok {
				out[s] = named(v)
			} else {
				out[fmt.Sprintf("%T %v", key, key)] = named(v)
			}
		}
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = named(v[i])
		}
		return list
	default:
		return v
	}
	return out
}

// at returns one kind of devices.
func at(doc map[string]any, kind string) map[string]any {
	network, _ := doc["network"].(map[string]any)
	section, _ := network[kind].(map[string]any)
	return section
}

// take removes and returns a device.
func take(doc map[string]any, id string) map[string]any {
	for _, kind := range []string{"ethernets", "bonds", "vlans", "dummy-devices", "virtual-ethernets"} {
		if d, ok := at(doc, kind)[id].(map[string]any); ok {
			delete(at(doc, kind), id)
			return d
		}
	}
	return nil
}

// prune drops what is empty, as the mapping "bridges" is once its bridge is
// taken out.
func prune(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	kept := make(map[string]any)
	for key, v := range m {
		v = prune(v)
		if sub, ok := v.(map[string]any); ok && len(sub) == 0 {
			continue
		}
		kept[key] = v
	}
	return kept
}
