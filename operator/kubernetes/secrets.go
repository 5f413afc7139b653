package kubernetes

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// maxFiles bounds what is stored of an operator: the API server takes no object of
// more than about 1 MiB and a half, and no Secret of more than 1 MiB.
const maxFiles = 1000 << 10

// record is what the Secret has of an operator.Config beside the two files.
// Secrets do not marshal, so the images' credentials are spelled out.
type record struct {
	Image, Base imageRecord
	Version     string
	Storage     *facade.CharmStorage `json:",omitempty"`
	Tags        map[string]string    `json:",omitempty"`
}

type imageRecord struct {
	Path, Username, Server, Repository, Region   string `json:",omitempty"`
	Password, Auth, IdentityToken, RegistryToken string `json:",omitempty"`
}

func recordOf(cfg *operator.Config) []byte {
	data, err := json.Marshal(record{
		Image:   imageRecordOf(cfg.ImageDetails),
		Base:    imageRecordOf(cfg.BaseImageDetails),
		Version: cfg.Version,
		Storage: cfg.CharmStorage,
		Tags:    cfg.ResourceTags,
	})
	if err != nil {
		panic(err) // only texts and numbers
	}
	return data
}

func imageRecordOf(d facade.ImageDetails) imageRecord {
	return imageRecord{
		Path: d.RegistryPath, Username: d.Username, Server: d.ServerAddress, Repository: d.Repository, Region: d.Region,
		Password: d.Password.Reveal(), Auth: d.Auth.Reveal(),
		IdentityToken: d.IdentityToken.Reveal(), RegistryToken: d.RegistryToken.Reveal(),
	}
}

// public is r without credentials.
func (r imageRecord) public() imageRecord {
	return imageRecord{Path: r.Path, Server: r.Server, Repository: r.Repository, Region: r.Region}
}

func (r imageRecord) details() facade.ImageDetails {
	return facade.ImageDetails{
		RegistryPath: r.Path, Username: r.Username, ServerAddress: r.Server, Repository: r.Repository, Region: r.Region,
		Password: facade.NewSecret(r.Password), Auth: facade.NewSecret(r.Auth),
		IdentityToken: facade.NewSecret(r.IdentityToken), RegistryToken: facade.NewSecret(r.RegistryToken),
	}
}

// configOf returns what the data of the Secret, or of the older tool's ConfigMap,
// says. A record that is missing or malformed costs what it would have told.
func configOf(n names, data map[string][]byte) *operator.Config {
	cfg := &operator.Config{
		AgentConf:    facade.NewSecret(string(data[n.agentConfKey()])),
		OperatorInfo: facade.NewSecret(string(data[infoKey])),
	}
	var r record
	if json.Unmarshal(data[recordKey], &r) != nil {
		return cfg
	}
	out := r.config()
	out.AgentConf, out.OperatorInfo = cfg.AgentConf, cfg.OperatorInfo
	return out
}

func (r record) config() *operator.Config {
	return &operator.Config{
		ImageDetails: r.Image.details(), BaseImageDetails: r.Base.details(),
		Version: r.Version, CharmStorage: r.Storage, ResourceTags: r.Tags,
	}
}

// effective is the digest of what a running operator has to read again when it
// changes.
func effective(cfg *operator.Config) string {
	return digest(string(agentconf.Effective([]byte(cfg.AgentConf.Reveal()))), cfg.OperatorInfo.Reveal())
}

// digest tells lists of texts apart, not only what they are in a row.
func digest(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		_, _ = io.WriteString(h, strconv.Itoa(len(text))+":")
		_, _ = io.WriteString(h, text)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// pullConfig is the .dockerconfigjson for the images, whose form is that of the
// container engines' own configuration file.
func pullConfig(images ...facade.ImageDetails) []byte {
	type entry struct {
		Username      string `json:"username,omitempty"`
		Password      string `json:"password,omitempty"`
		Auth          string `json:"auth,omitempty"`
		IdentityToken string `json:"identitytoken,omitempty"`
		RegistryToken string `json:"registrytoken,omitempty"`
	}
	auths := make(map[string]entry)
	for _, d := range images {
		if !d.IsPrivate() {
			continue
		}
		e := entry{
			Username: d.Username, Password: d.Password.Reveal(), Auth: d.Auth.Reveal(),
			IdentityToken: d.IdentityToken.Reveal(), RegistryToken: d.RegistryToken.Reveal(),
		}
		if e.Auth == "" && e.Username != "" {
			e.Auth = base64.StdEncoding.EncodeToString([]byte(e.Username + ":" + e.Password))
		}
		if server := registryOf(d); server != "" {
			if _, ok := auths[server]; !ok { // the operator's image goes first
				auths[server] = e
			}
		}
	}
	data, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		panic(err) // only texts
	}
	return data
}

// registryOf is the address that the engine looks for when it pulls the image.
func registryOf(d facade.ImageDetails) string {
	if d.ServerAddress != "" {
		return d.ServerAddress
	}
	host, _, found := strings.Cut(d.RegistryPath, "/")
	if !found || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return "https://index.docker.io/v1/"
	}
	return host
}

// sealMark begins a digest that stands for a Secret's content.
const sealMark = "sealed:"

// sealed replaces a Secret's contents by digests: to tell a difference takes no more,
// and what is not kept is not lost. Sealed contents stay as they are, since informers
// may trim an object twice. The record is followed by what is no secret in it.
func sealed(data map[string][]byte) map[string][]byte {
	if data == nil {
		return nil
	}
	out := make(map[string][]byte, len(data))
	for key, value := range data {
		if key == recordKey {
			out[key] = sealRecord(value)
			continue
		}
		out[key] = seal(value)
	}
	return out
}

// sealSize is how much of a digest is kept.
const sealSize = 16

func seal(value []byte) []byte {
	if len(value) == len(sealMark)+sealSize && bytes.HasPrefix(value, []byte(sealMark)) {
		return value
	}
	sum := sha256.Sum256(value)
	return append([]byte(sealMark), sum[:sealSize]...)
}

// sealRecord is seal, and leaves readable what is no secret. A record, which is
// JSON, does not look like one that is sealed.
func sealRecord(value []byte) []byte {
	if bytes.HasPrefix(value, []byte(sealMark)) {
		return value
	}
	out := seal(value)
	var r record
	if json.Unmarshal(value, &r) != nil {
		return out
	}
	r.Image, r.Base = r.Image.public(), r.Base.public()
	public, err := json.Marshal(r)
	if err != nil {
		return out
	}
	return append(out, public...)
}

// publicOf returns what the sealed data of the Secret says, which is all but the
// files and the credentials of registries.
func publicOf(data map[string][]byte) *operator.Config {
	var r record
	public, sealed := bytes.CutPrefix(data[recordKey], []byte(sealMark))
	if !sealed || len(public) <= sealSize || json.Unmarshal(public[sealSize:], &r) != nil {
		return &operator.Config{}
	}
	return r.config()
}

func sealSecret(s *corev1.Secret) { s.Data = sealed(s.Data) }
