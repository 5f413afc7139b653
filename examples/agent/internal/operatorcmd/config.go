package operatorcmd

import (
	"path/filepath"
	"slices"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/agent/internal/files"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// Names of an operator's files, and the greatest size of one.
const (
	ownConf      = "agent.conf"
	templateConf = "template-agent.conf"
	infoFile     = "operator.yaml"

	maxFile = 1 << 20
)

// settings are what an operator's files say.
type settings struct {
	tag       string
	caCert    string
	addresses []string
	passwords []facade.Secret // to be tried in this order
	info      operator.Info
}

// readSettings reads the files in dir, which must be those of the application.
// Errors name the file and quote nothing.
func readSettings(dir, application string) (settings, error) {
	own, err := readConf(dir, ownConf)
	if err != nil {
		return settings{}, err
	}
	tag := agentconf.TagForApplication(application)
	if own.Tag != tag {
		return settings{}, errors.NotValidf("%s: tag (want %s)", ownConf, tag)
	}
	s := settings{tag: tag, caCert: own.CACert, addresses: own.APIAddresses}
	s.addPassword(own.APIPassword)
	s.addPassword(own.OldPassword)
	switch template, err := readConf(dir, templateConf); {
	case errors.Is(err, errors.NotFound):
		// Then the own file is all there is.
	case err != nil:
		return settings{}, err
	default:
		s.caCert, s.addresses = template.CACert, template.APIAddresses
		s.addPassword(template.OldPassword)
	}
	if len(s.passwords) == 0 {
		return settings{}, errors.NotValidf("%s: no password", ownConf)
	}
	data, err := files.Read(filepath.Join(dir, infoFile), maxFile)
	if err != nil {
		return settings{}, err
	}
	s.info, err = operator.ParseInfo(facade.NewSecret(string(data)))
	return s, err
}

func (s *settings) addPassword(p facade.Secret) {
	if !p.IsZero() && !slices.ContainsFunc(s.passwords, p.Equal) {
		s.passwords = append(s.passwords, p)
	}
}

func readConf(dir, name string) (*agentconf.Config, error) {
	data, err := files.Read(filepath.Join(dir, name), maxFile)
	if err != nil {
		return nil, err
	}
	conf, err := agentconf.Parse(data)
	if err != nil {
		return nil, errors.Annotate(err, name)
	}
	return conf, errors.Annotate(conf.Validate(), name)
}
