package page

import (
	"fmt"
	"strings"
	"time"
)

// maxWhy is how much of a reason a row shows, in bytes; reports have all of it.
const maxWhy = 1000

// stamp is a time for machines, and for people who compare it with a log.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// roughly is a duration as people say it.
func roughly(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// oneLine makes one line of a message.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// excerpt is as much of a reason as a row shows.
func excerpt(s string) string {
	if len(s) > maxWhy {
		return strings.ToValidUTF8(s[:maxWhy], "") + "… (the report has it all)"
	}
	return s
}

// thousands writes a number as people read it.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
