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
	tag := agentconf.TagForApplication(application)
	own, err := readConf(dir, ownConf, tag)
	if errors.Is(err, errors.NotFound) {
		own, err = seedConf(dir, tag, err)
	}
	if err != nil {
		return settings{}, err
	}
	s := settings{tag: tag, caCert: own.CACert, addresses: own.APIAddresses}
	s.addPassword(own.APIPassword)
	s.addPassword(own.OldPassword)
	switch template, err := readConf(dir, templateConf, tag); {
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
	data, err := files.ReadShared(filepath.Join(dir, infoFile), maxFile)
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

// seedConf makes the first agent.conf from the template, as the agent does where
// operators are processes. In a pod nobody else does. Where there is no template
// it returns missing.
func seedConf(dir, tag string, missing error) (*agentconf.Config, error) {
	data, err := files.ReadShared(filepath.Join(dir, templateConf), maxFile)
	switch {
	case errors.Is(err, errors.NotFound):
		return nil, missing
	case err != nil:
		return nil, err
	}
	conf, err := parseConf(templateConf, tag, data)
	if err != nil {
		return nil, err
	}
	return conf, files.Write(filepath.Join(dir, ownConf), data)
}

func readConf(dir, name, tag string) (*agentconf.Config, error) {
	data, err := files.ReadShared(filepath.Join(dir, name), maxFile)
	if err != nil {
		return nil, err
	}
	return parseConf(name, tag, data)
}

// parseConf reads the content of one of the two, which must have the tag.
func parseConf(name, tag string, data []byte) (*agentconf.Config, error) {
	conf, err := agentconf.Parse(data)
	if err != nil {
		return nil, errors.Annotate(err, name)
	}
	if err := conf.Validate(); err != nil {
		return nil, errors.Annotate(err, name)
	}
	if conf.Tag != tag {
		return nil, errors.NotValidf("%s: tag (want %s)", name, tag)
	}
	return conf, nil
}
