package virt

import (
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"net/netip"
	"strings"

	"github.com/digitalocean/go-libvirt"
	"github.com/juju/errors"
)

// errMalformed is of an XML document that is not what it should be. It is not quoted.
const errMalformed = errors.ConstError("answer of libvirt does not have the form that it should have")

func formatUUID(u libvirt.UUID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func parseUUID(text string) (libvirt.UUID, error) {
	var uuid libvirt.UUID
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(raw) != len(uuid) {
		return uuid, errors.NotValidf("UUID %q", cut(text, 64))
	}
	copy(uuid[:], raw)
	return uuid, nil
}

// nameIn returns the name that a definition gives, as far as it can be told.
func nameIn(definition string) string {
	var def struct {
		Name string `xml:"name"`
	}
	_ = xml.Unmarshal([]byte(definition), &def)
	return strings.TrimSpace(def.Name)
}

func number(yes bool) int32 {
	if yes {
		return 1
	}
	return 0
}

func optional(s libvirt.OptString) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

func lower(s libvirt.OptString) string { return strings.ToLower(optional(s)) }

// prefix makes an address of libvirt's two values.
func prefix(address string, bits uint32) (netip.Prefix, bool) {
	addr, err := netip.ParseAddr(address)
	if err != nil || bits > 128 {
		return netip.Prefix{}, false
	}
	p := netip.PrefixFrom(addr, int(bits))
	return p, p.IsValid()
}
