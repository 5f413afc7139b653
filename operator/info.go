package operator

import (
	"unicode/utf8"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator/internal/strictyaml"
)

// MaxInfoSize is the greatest size in bytes of an operator.yaml that
// [ParseInfo] reads and [Info.Marshal] writes.
const MaxInfoSize = strictyaml.MaxSize

// infoFile is what errors call the file.
const infoFile = "operator.yaml"

// Info is the content of operator.yaml: what an operator serves TLS with. All
// three are PEM, and any of them may be empty.
type Info struct {
	// CACert is the certificate, or several in a row, that Cert chains to.
	CACert string
	// Cert is the operator's certificate, followed by intermediate ones if
	// there are any.
	Cert string
	// PrivateKey belongs to the first certificate of Cert.
	PrivateKey facade.Secret
}

// infoField is a key of the file and what is in it.
type infoField struct{ key, text string }

// Marshal returns the file operator.yaml, without the keys that are empty: the
// same text for the same Info. It returns errors.NotValid, naming the key and
// quoting nothing, for what is not UTF-8, and for a file over [MaxInfoSize].
func (i Info) Marshal() (facade.Secret, error) {
	var pairs []*yaml.Node
	for _, f := range []infoField{
		{"ca-cert", i.CACert},
		{"cert", i.Cert},
		// Revealed here, since a Secret marshals itself redacted.
		{"private-key", i.PrivateKey.Reveal()},
	} {
		switch {
		case !utf8.ValidString(f.text):
			return facade.Secret{}, errors.NotValidf("%s, %s (not UTF-8)", infoFile, f.key)
		case f.text != "":
			pairs = append(pairs, strictyaml.TextNode(f.key), strictyaml.TextNode(f.text))
		}
	}
	data, err := strictyaml.Encode(infoFile, pairs)
	if err != nil {
		return facade.Secret{}, err
	}
	return facade.NewSecret(string(data)), nil
}

// ParseInfo reads an operator.yaml. Keys may be missing, empty or in any order,
// and those that are not known are ignored. Whether the certificate is of any
// use is for [CheckCertificate] to tell.
//
// Every error is an errors.NotValid that names the line, the key and the rule,
// and quotes nothing of data.
func ParseInfo(data facade.Secret) (Info, error) {
	pairs, err := strictyaml.Load(infoFile, []byte(data.Reveal()))
	if err != nil {
		return Info{}, err
	}
	var info Info
	for _, p := range pairs {
		key := p.Key.Value
		if key != "ca-cert" && key != "cert" && key != "private-key" {
			continue
		}
		text, ok := strictyaml.Text(p.Value)
		switch {
		case !ok:
			return Info{}, strictyaml.NotValid(infoFile, p.Value.Line, key, "want text")
		case key == "ca-cert":
			info.CACert = text
		case key == "cert":
			info.Cert = text
		default:
			info.PrivateKey = facade.NewSecret(text)
		}
	}
	return info, nil
}
