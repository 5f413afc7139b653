package controller

import (
	"crypto/rand"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/agent/internal/api"
	"github.com/sutler-dev/sutler/facade"
)

// lostAfter is how long an operator may say nothing before it counts as lost.
const lostAfter = 4 * api.Heartbeat

// operators are what is known of those that logged in, in memory only.
type operators struct {
	mu     sync.Mutex
	byName map[string]*operatorRecord
	// sessions finds an application by its session's token; only the hash
	// is kept, so that no copy of the memory lets anybody in.
	sessions map[[sha256.Size]byte]string
}

// operatorRecord is one operator's.
type operatorRecord struct {
	session                   [sha256.Size]byte
	logins, refused           int
	lastLogin, lastSeen       time.Time
	status                    api.Status
	provisioning, whyNotReady string
}

func newOperators() *operators {
	return &operators{byName: map[string]*operatorRecord{}, sessions: map[[sha256.Size]byte]string{}}
}

// login opens the session of an application, in place of an older one.
func (o *operators) login(app string, now time.Time) (token string) {
	token = rand.Text()
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.record(app)
	delete(o.sessions, r.session)
	r.session = sha256.Sum256([]byte(token))
	o.sessions[r.session] = app
	r.logins++
	r.lastLogin, r.lastSeen = now, now
	return token
}

// refuse counts a log-in that failed.
func (o *operators) refuse(app string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.record(app).refused++
}

// setStatus notes what the owner of a session says, or returns
// errors.Unauthorized.
func (o *operators) setStatus(token string, status api.Status, now time.Time) (app string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	app, ok := o.sessions[sha256.Sum256([]byte(token))]
	if !ok {
		return "", errors.Unauthorizedf("session")
	}
	r := o.byName[app]
	r.status, r.lastSeen = status, now
	return app, nil
}

// setProvisioning notes how far an application's provisioning is.
func (o *operators) setProvisioning(app string, status facade.ProvisioningStatus, message string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.record(app)
	r.provisioning, r.whyNotReady = string(status), message
}

// forget drops everybody but those named, with their sessions.
func (o *operators) forget(known func(app string) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.byName, func(app string, r *operatorRecord) bool {
		if known(app) {
			return false
		}
		delete(o.sessions, r.session)
		return true
	})
}

// record returns the application's; the mutex is held.
func (o *operators) record(app string) *operatorRecord {
	r := o.byName[app]
	if r == nil {
		r = &operatorRecord{}
		o.byName[app] = r
	}
	return r
}

// report describes what is known of an application's operator.
func (o *operators) report(app string, now time.Time) map[string]any {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.byName[app]
	if r == nil {
		return map[string]any{}
	}
	out := map[string]any{}
	if r.provisioning != "" {
		out["provisioning"] = r.provisioning
	}
	if r.whyNotReady != "" {
		out["message"] = r.whyNotReady
	}
	if r.logins == 0 && r.refused == 0 {
		return out
	}
	op := map[string]any{"logins": r.logins, "refused": r.refused}
	if r.logins > 0 {
		op["last-login"], op["last-seen"] = formatTime(r.lastLogin), formatTime(r.lastSeen)
		op["status"] = r.state(now)
	}
	if r.status.Address != "" {
		op["address"] = r.status.Address
		op["certificate"] = r.status.Fingerprint
		op["names"] = slices.Clone(r.status.Names)
	}
	out["operator"] = op
	return out
}

// state is the status that the operator told, unless it has been silent for too
// long.
func (r *operatorRecord) state(now time.Time) string {
	switch {
	case r.status.Status == api.Stopped:
		return api.Stopped
	case now.Sub(r.lastSeen) > lostAfter:
		return "lost"
	case r.status.Status == "":
		return "logged in"
	}
	return r.status.Status
}

// validateStatus bounds what an operator may have the report repeat.
func validateStatus(s api.Status) error {
	const maxNames, maxName = 8, 256
	text := s.Address + s.Fingerprint + strings.Join(s.Names, "")
	switch {
	case s.Status != api.Active && s.Status != api.Stopped:
		return errors.NotValidf("status (want active or stopped)")
	case s.Address != "" && facade.ValidateAddress(s.Address) != nil:
		return errors.NotValidf("address (want host:port)")
	case len(s.Names) > maxNames || slices.ContainsFunc(s.Names, func(n string) bool { return len(n) > maxName }):
		return errors.NotValidf("names (want %d of %d bytes at most)", maxNames, maxName)
	case len(s.Fingerprint) > 2*sha256.Size:
		return errors.NotValidf("fingerprint (want a SHA-256 in hex)")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }):
		return errors.NotValidf("status (want printable ASCII)")
	}
	return nil
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
