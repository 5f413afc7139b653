package container

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/juju/errors"
)

// MaxInstanceName is the greatest length of an instance's name in bytes: a DNS
// label's, which is also LXD's.
const MaxInstanceName = 63

// modelDigits is how many hex digits of the model's UUID a name begins with.
const modelDigits = 6

var hexUUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// InstancePrefix returns what the names of all of a model's instances begin
// with: "juju-", the last six hex digits of its UUID, and a dash. It returns
// errors.NotValid for what is no UUID.
func InstancePrefix(modelUUID string) (string, error) {
	uuid := strings.ToLower(modelUUID)
	if !hexUUID.MatchString(uuid) {
		return "", errors.NotValidf("model UUID %q", modelUUID[:min(len(modelUUID), 64)])
	}
	return "juju-" + uuid[len(uuid)-modelDigits:] + "-", nil
}

// InstanceName returns the name of a container's instance: the model's prefix
// and the id with dashes for slashes. Where that would be longer than
// [MaxInstanceName], the id's end gives way to a digest of the whole id, so that
// no two ids share a name by being cut; a back end keeps the id itself beside
// the name.
func InstanceName(modelUUID, id string) (string, error) {
	prefix, err := InstancePrefix(modelUUID)
	if err != nil {
		return "", err
	}
	if _, err := ParseID(id); err != nil {
		return "", err
	}
	name := prefix + strings.ReplaceAll(id, "/", "-")
	if len(name) <= MaxInstanceName {
		return name, nil
	}
	digest := sha256.Sum256([]byte(id))
	// "-x" is in no id's own name: ids have a number after a type.
	suffix := "-x" + hex.EncodeToString(digest[:8])
	return strings.TrimRight(name[:MaxInstanceName-len(suffix)], "-") + suffix, nil
}
