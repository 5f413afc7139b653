package process

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// Names in an operator's directory, and in the manager's own.
const (
	templateName  = "template-agent.conf"
	infoName      = "operator.yaml"
	agentConfName = "agent.conf"
	recordName    = "operator.json"
	logName       = "operator.log"
	oldLogName    = "operator.log.1"

	lockName       = ".lock"
	makingPrefix   = ".making-"
	removingPrefix = ".removing-"
)

// recordFormat is the only one there is so far.
const recordFormat = 1

// record is what the manager must not forget of an operator. Everything that is
// not in it (back-off, the number of restarts, when a process was told to end)
// a new manager may begin anew.
//
// The life of an operator, as the record and the world show it. A crash between
// two lines leaves what the line above says, and whoever comes next does the
// rest:
//
//	                          directory  files   Ensured  Started  Process  alive
//	nothing                   -          -       -        -        -        -
//	directory renamed         yes        -       no       -        -        -
//	configuration stored      yes        yes     no       -        -        -       staged
//	Ensure has returned       yes        yes     yes      -        -        -
//	about to start            yes        yes     yes      Wanted   -        -
//	forked                    yes        yes     yes      Wanted   -        yes     found by Token
//	running                   yes        yes     yes      Wanted   pid      yes
//	another config ensured    yes        yes     yes      older    pid      yes     to be restarted
//	ended                     yes        yes     yes      any      old pid  -       to be started
//	Deleting                  yes        yes     any      any      any      any     signals, then removal
//	directory renamed         -          -       -        -        -        -       to be emptied
type record struct {
	Format int `json:"format"`
	// Token is in the environment of the operator's processes.
	Token string `json:"token"`
	// Ensured says that the operator is to run; without it, its
	// configuration is only staged.
	Ensured bool `json:"ensured"`
	// Deleting is never taken back: the name is free once the directory is
	// gone, and not before.
	Deleting bool `json:"deleting,omitempty"`

	// Wanted is the effective configuration that the operator is to run
	// with, and Started the one that its last process was started with.
	Wanted  string `json:"wanted,omitempty"`
	Started string `json:"started,omitempty"`
	// StartedAt and Boot are written with Started before the process is
	// there, and Process once it is: no Process with this Boot is one that
	// may be there.
	StartedAt time.Time `json:"started-at,omitzero"`
	Boot      string    `json:"boot-id,omitempty"`
	Process   *process  `json:"process,omitempty"`

	Config storedConfig `json:"config"`
}

// storedConfig is what operator.Config has beside its two files.
type storedConfig struct {
	Image     storedImage          `json:"image"`
	BaseImage storedImage          `json:"base-image"`
	Version   string               `json:"version,omitempty"`
	Storage   *facade.CharmStorage `json:"storage,omitempty"`
	Tags      map[string]string    `json:"tags,omitempty"`
}

// storedImage is facade.ImageDetails with its secrets as bytes, which JSON
// encodes whatever they are. It is there to be written to a private file and
// goes nowhere else.
type storedImage struct {
	RegistryPath  string `json:"registry-path,omitempty"`
	Username      string `json:"username,omitempty"`
	Password      []byte `json:"password,omitempty"`
	Auth          []byte `json:"auth,omitempty"`
	IdentityToken []byte `json:"identity-token,omitempty"`
	RegistryToken []byte `json:"registry-token,omitempty"`
	ServerAddress string `json:"server-address,omitempty"`
	Repository    string `json:"repository,omitempty"`
	Region        string `json:"region,omitempty"`
}

// storeConfig copies what the caller may go on to change.
func storeConfig(cfg *operator.Config) storedConfig {
	// The clone's maps and storage are nobody else's.
	cfg = cfg.Clone()
	return storedConfig{
		Image:     storeImage(cfg.ImageDetails),
		BaseImage: storeImage(cfg.BaseImageDetails),
		Version:   cfg.Version,
		Storage:   cfg.CharmStorage,
		Tags:      cfg.ResourceTags,
	}
}

// config returns a copy, which its reader may change.
func (s storedConfig) config() *operator.Config {
	cfg := operator.Config{
		ImageDetails:     s.Image.details(),
		BaseImageDetails: s.BaseImage.details(),
		Version:          s.Version,
		CharmStorage:     s.Storage,
		ResourceTags:     s.Tags,
	}
	return cfg.Clone()
}

// storeImage is for the record alone: here secrets become plain.
func storeImage(d facade.ImageDetails) storedImage {
	return storedImage{
		RegistryPath:  d.RegistryPath,
		Username:      d.Username,
		Password:      storeSecret(d.Password),
		Auth:          storeSecret(d.Auth),
		IdentityToken: storeSecret(d.IdentityToken),
		RegistryToken: storeSecret(d.RegistryToken),
		ServerAddress: d.ServerAddress,
		Repository:    d.Repository,
		Region:        d.Region,
	}
}

// details is the way back.
func (s storedImage) details() facade.ImageDetails {
	return facade.ImageDetails{
		RegistryPath:  s.RegistryPath,
		Username:      s.Username,
		Password:      facade.NewSecret(string(s.Password)),
		Auth:          facade.NewSecret(string(s.Auth)),
		IdentityToken: facade.NewSecret(string(s.IdentityToken)),
		RegistryToken: facade.NewSecret(string(s.RegistryToken)),
		ServerAddress: s.ServerAddress,
		Repository:    s.Repository,
		Region:        s.Region,
	}
}

// storeSecret returns nil for the empty one, as reading it back does.
func storeSecret(s facade.Secret) []byte {
	if s.IsZero() {
		return nil
	}
	return []byte(s.Reveal())
}

// encode is for a file of mode 0600: the registries' secrets are in it.
func (r record) encode() ([]byte, error) {
	r.Format = recordFormat
	data, err := json.MarshalIndent(r, "", "  ")
	return append(data, '\n'), err
}

var (
	tokenForm = regexp.MustCompile(`^[0-9a-f]{16}\.[0-9a-f]{32}\.[a-z0-9-]+$`)
	idForm    = regexp.MustCompile(`^[0-9a-f]{16}$`)
)

// decodeRecord quotes nothing. A pid below 2 would be everybody's to signal.
func decodeRecord(data []byte) (record, error) {
	var r record
	switch err := json.Unmarshal(data, &r); {
	case err != nil:
		return record{}, errors.NotValidf("record (want JSON)")
	case r.Format != recordFormat:
		return record{}, errors.NotValidf("record of format %d (want %d)", r.Format, recordFormat)
	case !tokenForm.MatchString(r.Token):
		return record{}, errors.NotValidf("record's token")
	case r.Process != nil && r.Process.Pid < 2:
		return record{}, errors.NotValidf("record's pid")
	}
	return r, nil
}

// newToken says whose operator it is, which anybody may know: the directory's id
// and the application. The rest cannot be guessed and is another one for each
// incarnation, so no other process has it by chance.
func newToken(id, app string) string { return id + "." + random(16) + "." + app }

// splitToken returns the directory's id and the application in a token.
func splitToken(token string) (id, app string) {
	if !tokenForm.MatchString(token) {
		return "", ""
	}
	parts := strings.SplitN(token, ".", 3)
	return parts[0], parts[2]
}

// random returns n random bytes in hex.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// revision is the generation of two stored files, empty for none. It is worked
// out from the content and not counted: that needs no further write that a
// crash could lose, and who edits a file by hand changes it, too.
func revision(agentConf, info []byte) string {
	if len(agentConf) == 0 && len(info) == 0 {
		return ""
	}
	return digest(agentConf, info)
}

// effective is the digest of what a running operator has to read again when it
// changes.
func effective(agentConf, info []byte) string { return digest(agentconf.Effective(agentConf), info) }

// digest tells lists of texts apart, not only their concatenations.
func digest(texts ...[]byte) string {
	h := sha256.New()
	for _, text := range texts {
		_, _ = io.WriteString(h, strconv.Itoa(len(text))+":")
		_, _ = h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil))
}
