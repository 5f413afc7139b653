package machine

import (
	"encoding/xml"
	"io"
	"strings"

	"github.com/juju/errors"
)

// Namespace is that of the element in a domain's metadata that is our own. Its number goes
// up when older agents could no longer read it.
const Namespace = "https://sutler.dev/ns/domain/1"

// Prefix is the word for [Namespace] that an element is given with to libvirt.
const Prefix = "sutler"

// element is what a domain's metadata has of ours. The names have the prefix in them as
// libvirt refuses an element without one.
type element struct {
	XMLName    xml.Name `xml:"sutler:instance"`
	Namespace  string   `xml:"xmlns:sutler,attr"`
	Model      string   `xml:"sutler:model"`
	Controller string   `xml:"sutler:controller"`
	Container  string   `xml:"sutler:container"`
	RootDisk   uint64   `xml:"sutler:rootdisk"` // MiB
	Tags       []tag    `xml:"sutler:tag"`
	Interfaces []nic    `xml:"sutler:interface"`
}

// tag has all in attributes: libvirt keeps blanks in those, but not between elements.
type tag struct {
	Key   string `xml:"key,attr"`
	Value string `xml:"value,attr"`
}

// nic is what the domain's own element about an interface does not tell.
type nic struct {
	Name      string   `xml:"name,attr"`
	MAC       string   `xml:"mac,attr"`
	Gateway   string   `xml:"gateway,attr,omitempty"`
	Addresses []string `xml:"sutler:address"`
	DNS       []string `xml:"sutler:dns"`
}

// parsed is an element as it is read, whatever the prefix.
type parsed struct {
	XMLName    xml.Name    `xml:"instance"`
	Model      string      `xml:"model"`
	Controller string      `xml:"controller"`
	Container  string      `xml:"container"`
	RootDisk   uint64      `xml:"rootdisk"`
	Tags       []tag       `xml:"tag"`
	Interfaces []parsedNIC `xml:"interface"`
}

type parsedNIC struct {
	Name      string   `xml:"name,attr"`
	MAC       string   `xml:"mac,attr"`
	Gateway   string   `xml:"gateway,attr"`
	Addresses []string `xml:"address"`
	DNS       []string `xml:"dns"`
}

// ParseMetadata returns what a domain's XML, or the element of ours alone as libvirt tells
// it when it is asked for that of our namespace, tells of whose it is. One that has no such element is errors.NotFound; what cannot be read is
// errors.NotValid.
func ParseMetadata(text string) (Metadata, error) {
	e, err := findElement(text)
	if err != nil {
		return Metadata{}, err
	}
	return e.metadata(), nil
}

func (e parsed) metadata() Metadata {
	m := Metadata{ModelUUID: e.Model, ControllerUUID: e.Controller, ContainerID: e.Container}
	for _, t := range e.Tags {
		if m.Tags == nil {
			m.Tags = map[string]string{}
		}
		m.Tags[t.Key] = t.Value
	}
	return m
}

// findElement looks where the element belongs and nowhere else: what is deeper is of
// somebody else's making.
func findElement(text string) (parsed, error) {
	dec := xml.NewDecoder(strings.NewReader(text))
	var path []string
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return parsed{}, errors.NotFoundf("metadata of %s", Namespace)
		}
		if err != nil {
			return parsed{}, errors.NotValidf("domain XML: %v: it", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			at := strings.Join(path, "/")
			ours := t.Name.Space == Namespace && at == "domain/metadata"
			// Asked for it, libvirt takes the namespace away.
			alone := (t.Name.Space == Namespace || t.Name.Space == "") && at == ""
			if t.Name.Local == "instance" && (ours || alone) {
				var e parsed
				if err := dec.DecodeElement(&e, &t); err != nil {
					return parsed{}, errors.NotValidf("metadata of %s: %v: it", Namespace, err)
				}
				return e, nil
			}
			path = append(path, t.Name.Local)
		case xml.EndElement:
			path = path[:len(path)-1]
		}
	}
}
