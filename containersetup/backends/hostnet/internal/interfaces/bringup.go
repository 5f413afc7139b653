package interfaces

import (
	"path"
	"slices"
	"strings"
)

// bringUp adds the bridge wherever the device is named to be brought up or left
// up, right behind it, and renames the device's aliases.
//
// What is brought up when the kernel finds a device is another thing: the kernel
// never finds a bridge that ifup is yet to make, nor does a pattern match it. So
// the device stays in such a line, and the bridge is brought up with all others
// at boot.
func (c *configuration) bringUp(b Bridging) {
	var waiting []string // for a line of their own
	var after *line
	var in *document
	auto := false
	wait := func(d *document, l *line, name string) {
		if after == nil {
			in, after = d, l
		}
		if !slices.Contains(waiting, name) {
			waiting = append(waiting, name)
		}
	}
	for _, d := range c.docs {
		for _, l := range slices.Clone(d.lines) {
			if l.kind != single {
				continue
			}
			first := l.words[0]
			isAuto, isAllow := first == "auto" || first == "allow-auto", strings.HasPrefix(first, "allow-")
			if !isAuto && !isAllow && first != "no-auto-down" {
				continue
			}
			hotplug := first == "allow-hotplug"
			for i := len(l.words) - 1; i > 0; i-- {
				word := l.words[i]
				physical, _, _ := strings.Cut(word, "=")
				switch {
				case strings.HasPrefix(word, b.Device+":"):
					l.replace(i, renamed(word, b))
					d.changed = true
					if hotplug {
						wait(d, l, renamed(word, b))
					}
				case physical == b.Device && !hotplug:
					auto = auto || isAuto
					if !slices.Contains(l.words, b.Bridge) {
						l.replace(i, word+" "+b.Bridge)
						d.changed = true
					}
				case physical == b.Device || (isAuto || isAllow) && matches(word, b):
					wait(d, l, b.Bridge)
				}
			}
		}
	}
	if auto {
		waiting = slices.DeleteFunc(waiting, func(name string) bool { return name == b.Bridge })
	}
	if len(waiting) == 0 {
		return
	}
	slices.Sort(waiting) // the bridge before its aliases
	at := slices.Index(in.lines, after) + 1
	in.lines = slices.Insert(in.lines, at, newLine(single, "auto "+strings.Join(waiting, " ")))
	in.changed = true
}

// matches tells whether a word is a pattern that holds for the device.
func matches(word string, b Bridging) bool {
	variable, value, ok := strings.Cut(word, "/")
	if !ok || strings.HasPrefix(word, "/dev/") {
		return false
	}
	value, _, _ = strings.Cut(value, "=")
	value, _, _ = strings.Cut(value, "/")
	switch variable {
	case "":
		return glob(value, b.Device)
	case "mac":
		return b.MAC != "" && glob(strings.ToLower(value), strings.ToLower(b.MAC))
	}
	return false
}

// glob matches as fnmatch does; a pattern that is malformed matches only itself.
func glob(pattern, name string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), name)
	return err == nil && ok || pattern == name
}

// redirect has the commands of a stanza name the bridge where they give an
// address or a route to the device, which cannot have one any longer. Whatever
// else they do with the device they do as before.
func (c *configuration) redirect(s stanza, b Bridging) {
	for _, l := range s.options() {
		switch l.key() {
		case "up", "post-up", "pre-up", "down", "pre-down", "post-down":
		default:
			continue
		}
		if !routes(l.words) {
			continue
		}
		for i := 2; i < len(l.words); i++ {
			if l.words[i-1] == "dev" && l.words[i] == b.Device {
				l.replace(i, b.Bridge)
			}
		}
	}
}

// routes tells whether a command is about addresses, routes or neighbours.
func routes(words []string) bool {
	return slices.ContainsFunc(words[1:], func(w string) bool {
		switch w {
		case "route", "ro", "r", "addr", "address", "a", "neigh", "neighbour", "rule":
			return true
		}
		return strings.HasSuffix(w, "/route")
	})
}
