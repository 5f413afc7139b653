package provisioner

import (
	"crypto/rand"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// untoldMark is the key in agent.conf's values that marks a staged password of
// which the controller may not have heard. See passwordPlan.mark.
const untoldMark = "sutler-password-untold"

// inputs is what an operator's files are rendered from, beside what is stored.
type inputs struct {
	app            string
	dataDir        string
	logDir         string
	controllerUUID string
	modelUUID      string
	caCert         string
	info           *facade.OperatorProvisioningInfo
}

// digest returns a value that differs when anything differs that the rendered
// files depend on besides the stored ones. It stands for all that in the memory
// of a settled application, as digestFiles does for the stored files.
func (in *inputs) digest(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, s := range [...]string{in.dataDir, in.logDir, in.controllerUUID, in.modelUUID, in.caCert, in.info.Version} {
		addField(&h, s)
	}
	for _, addr := range in.info.APIAddresses {
		addField(&h, addr)
	}
	return h.Sum64()
}

// digestFiles returns a value that differs when a stored file does.
func digestFiles(seed maphash.Seed, stored *operator.Config) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	addField(&h, stored.AgentConf.Reveal())
	addField(&h, stored.OperatorInfo.Reveal())
	return h.Sum64()
}

// addField adds a text and its length, which keeps neighbours apart.
func addField(h *maphash.Hash, s string) {
	maphash.WriteComparable(h, len(s))
	h.WriteString(s)
}

// parseStored reads the stored agent.conf; one that does not parse counts as
// none. A configuration that cannot be read has no password worth keeping.
func parseStored(stored *operator.Config) *agentconf.Config {
	if stored == nil || stored.AgentConf.IsZero() {
		return nil
	}
	conf, err := agentconf.Parse([]byte(stored.AgentConf.Reveal()))
	if err != nil {
		return nil
	}
	return conf
}

// renderConf renders the operator's agent.conf: what it must say now, on top of
// what the previous file held beyond that.
func renderConf(in *inputs, previous *agentconf.Config, password facade.Secret, mark bool) (facade.Secret, error) {
	conf := &agentconf.Config{}
	if previous != nil {
		conf = previous.Clone()
	}
	conf.Tag = agentconf.TagForApplication(in.app)
	conf.DataDir = in.dataDir
	conf.LogDir = in.logDir
	conf.UpgradedToVersion = in.info.Version
	conf.CACert = in.caCert
	conf.ControllerUUID = in.controllerUUID
	conf.ModelUUID = in.modelUUID
	if !sameSet(conf.APIAddresses, in.info.APIAddresses) {
		conf.APIAddresses = slices.Clone(in.info.APIAddresses)
	}
	// A fresh agent looks for its first password in the old one's place.
	conf.APIPassword = facade.Secret{}
	conf.OldPassword = password
	delete(conf.Values, untoldMark)
	if mark {
		if conf.Values == nil {
			conf.Values = map[string]string{}
		}
		conf.Values[untoldMark] = "true"
	}
	data, err := conf.Render()
	if err != nil {
		return facade.Secret{}, errors.Annotate(err, "rendering agent.conf")
	}
	return facade.NewSecret(string(data)), nil
}

// sameSet reports whether both hold the same strings, in whatever order.
func sameSet(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	if slices.Equal(a, b) {
		return true
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// mintPassword returns a new random password of 26 characters: 130 bits.
func mintPassword() facade.Secret { return facade.NewSecret(rand.Text()) }

// newConfig returns what the manager is to be given.
func newConfig(info *facade.OperatorProvisioningInfo, agentConf, operatorInfo facade.Secret, generation string) *operator.Config {
	return &operator.Config{
		ImageDetails:     info.ImageDetails,
		BaseImageDetails: info.BaseImageDetails,
		Version:          info.Version,
		CharmStorage:     info.CharmStorage,
		ResourceTags:     info.Tags,
		AgentConf:        agentConf,
		OperatorInfo:     operatorInfo,
		Generation:       generation,
	}
}

// sameConfig reports whether ensuring b where a is stored would change nothing.
func sameConfig(a, b *operator.Config) bool {
	return sameImage(a.ImageDetails, b.ImageDetails) && sameImage(a.BaseImageDetails, b.BaseImageDetails) &&
		a.Version == b.Version && sameStorage(a.CharmStorage, b.CharmStorage) &&
		maps.Equal(a.ResourceTags, b.ResourceTags) &&
		a.AgentConf.Equal(b.AgentConf) && a.OperatorInfo.Equal(b.OperatorInfo)
}

func sameImage(a, b facade.ImageDetails) bool {
	return a.RegistryPath == b.RegistryPath && a.Username == b.Username && a.Password.Equal(b.Password) &&
		a.Auth.Equal(b.Auth) && a.IdentityToken.Equal(b.IdentityToken) && a.RegistryToken.Equal(b.RegistryToken) &&
		a.ServerAddress == b.ServerAddress && a.Repository == b.Repository && a.Region == b.Region
}

func sameStorage(a, b *facade.CharmStorage) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.StorageName == b.StorageName && a.Size == b.Size && a.Provider == b.Provider &&
		maps.Equal(a.Attributes, b.Attributes) && maps.Equal(a.ResourceTags, b.ResourceTags)
}

// certificateFacts is what is known of the stored certificate.
type certificateFacts struct {
	usable   bool              // parses, fits and is valid now
	validity operator.Validity // if usable
}

// checkStoredCertificate judges what operator.yaml holds; nothing at all, and
// what cannot be read, is not usable.
func checkStoredCertificate(in *inputs, stored *operator.Config, now time.Time) certificateFacts {
	if stored == nil || stored.OperatorInfo.IsZero() {
		return certificateFacts{}
	}
	info, err := operator.ParseInfo(stored.OperatorInfo)
	if err != nil {
		return certificateFacts{}
	}
	validity, err := operator.CheckCertificate(info, in.app, in.caCert, now)
	if err != nil {
		return certificateFacts{}
	}
	return certificateFacts{usable: true, validity: validity}
}

// acceptCertificate returns the operator.yaml that holds a certificate just
// issued, and for how long it can be used. One that does not fit, or would fall due at
// once, is refused: to keep it would only have it issued again for ever.
func acceptCertificate(in *inputs, cert facade.OperatorCertificate, now time.Time) (facade.Secret, operator.Validity, error) {
	if err := cert.Validate(); err != nil {
		return facade.Secret{}, operator.Validity{}, err
	}
	info := operator.Info{CACert: cert.CACert, Cert: cert.Cert, PrivateKey: cert.PrivateKey}
	validity, err := operator.CheckCertificate(info, in.app, in.caCert, now)
	if err != nil {
		return facade.Secret{}, operator.Validity{}, err
	}
	if !validity.RenewAt.After(now) {
		return facade.Secret{}, operator.Validity{}, errors.NotValidf("certificate that is due for renewal when issued")
	}
	data, err := info.Marshal()
	return data, validity, errors.Annotate(err, "rendering operator.yaml")
}
