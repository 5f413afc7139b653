package machinelock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sutler-dev/sutler/containersetup/container"
)

const (
	// maxContent is how much of a lock file is looked at.
	maxContent = 4096
	// maxText is how much of a holder's worker or reason is written: a
	// quoted byte takes up to four, and all must fit.
	maxText = 400
)

// render returns what the file says while the lock is held. It is YAML of the
// plainest kind, so that it can be read back without a YAML library.
func render(s container.LockStatus) []byte {
	return fmt.Appendf(nil, "worker: %s\nreason: %s\npid: %d\nsince: %s\n",
		quote(s.Holder.Worker), quote(s.Holder.Reason), s.PID, quote(s.Since.UTC().Format(time.RFC3339Nano)))
}

// quote keeps to printable ASCII, where Go's quoted strings and YAML's are the
// same.
func quote(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strconv.QuoteToASCII(strings.ToValidUTF8(s, "\uFFFD"))
}

// parse reads what render wrote. For anything else, and for a part of it, ok is
// false: such a file tells nothing, rather than something half true.
func parse(data []byte) (s container.LockStatus, ok bool) {
	text, complete := strings.CutSuffix(string(data), "\n")
	lines := strings.Split(text, "\n")
	if !complete || len(data) > maxContent || len(lines) != 4 {
		return s, false
	}
	values := make([]string, len(lines))
	for i, key := range []string{"worker: ", "reason: ", "pid: ", "since: "} {
		value, found := strings.CutPrefix(lines[i], key)
		if !found {
			return s, false
		}
		values[i] = value
	}
	var errs [4]error
	var since string
	s.Holder.Worker, errs[0] = unquote(values[0])
	s.Holder.Reason, errs[1] = unquote(values[1])
	s.PID, errs[2] = strconv.Atoi(values[2])
	since, errs[3] = unquote(values[3])
	for _, err := range errs {
		if err != nil {
			return container.LockStatus{}, false
		}
	}
	at, err := time.Parse(time.RFC3339Nano, since)
	if err != nil || s.PID <= 0 {
		return container.LockStatus{}, false
	}
	s.Held, s.Since = true, at
	return s, true
}

// unquote refuses the other quotes that strconv knows.
func unquote(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		return "", strconv.ErrSyntax
	}
	return strconv.Unquote(s)
}
