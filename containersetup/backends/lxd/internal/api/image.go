package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/juju/errors"
)

// Image is what instances are made from, in LXD's own store.
type Image struct {
	Fingerprint string
	Aliases     []string
	// Type is "container", or "virtual-machine".
	Type         string
	Architecture string
	// Size is in bytes.
	Size       int64
	Properties map[string]string
	// AutoUpdate tells whether LXD fetches newer ones by itself.
	AutoUpdate bool
	// Cached tells whether LXD fetched it on its own account, and may drop it.
	Cached     bool
	CreatedAt  time.Time
	UploadedAt time.Time
}

// ImageAlias returns the fingerprint of the image that has the alias, or
// errors.NotFound.
func (c *Client) ImageAlias(ctx context.Context, alias string) (string, error) {
	part, err := segment("image alias", alias)
	if err != nil {
		return "", err
	}
	var raw struct {
		Target string `json:"target"`
	}
	_, err = c.get(ctx, request{path: "/1.0/images/aliases/" + part}, &raw)
	if err == nil && !fingerprint(raw.Target) {
		err = errors.New("answer without a fingerprint")
	}
	if err != nil {
		return "", errors.Annotatef(err, "image alias %q", alias)
	}
	return raw.Target, nil
}

// Image returns one by its fingerprint, or the beginning of it, or
// errors.NotFound.
func (c *Client) Image(ctx context.Context, fingerprint string) (Image, error) {
	part, err := segment("image", fingerprint)
	if err != nil {
		return Image{}, err
	}
	var raw struct {
		Fingerprint string `json:"fingerprint"`
		Aliases     []struct {
			Name string `json:"name"`
		} `json:"aliases"`
		Type         string            `json:"type"`
		Architecture string            `json:"architecture"`
		Size         int64             `json:"size"`
		Properties   map[string]string `json:"properties"`
		AutoUpdate   bool              `json:"auto_update"`
		Cached       bool              `json:"cached"`
		CreatedAt    time.Time         `json:"created_at"`
		UploadedAt   time.Time         `json:"uploaded_at"`
	}
	if _, err := c.get(ctx, request{path: "/1.0/images/" + part}, &raw); err != nil {
		return Image{}, errors.Annotatef(err, "image %q", fingerprint)
	}
	image := Image{
		Fingerprint: raw.Fingerprint, Type: raw.Type, Architecture: raw.Architecture, Size: raw.Size,
		Properties: raw.Properties, AutoUpdate: raw.AutoUpdate, Cached: raw.Cached,
		CreatedAt: raw.CreatedAt, UploadedAt: raw.UploadedAt,
	}
	for _, alias := range raw.Aliases {
		image.Aliases = append(image.Aliases, alias.Name)
	}
	return image, nil
}

// DeleteImage removes one by its fingerprint, or returns errors.NotFound.
func (c *Client) DeleteImage(ctx context.Context, fingerprint string) error {
	part, err := segment("image", fingerprint)
	if err != nil {
		return err
	}
	_, err = c.change(ctx, request{method: http.MethodDelete, path: "/1.0/images/" + part})
	return errors.Annotatef(err, "deleting image %q", fingerprint)
}

// ImageSource is where an image is to be had.
type ImageSource struct {
	// Server is the address of an image server: "https://...".
	Server string
	// Protocol is "simplestreams" or "lxd".
	Protocol string
	// Alias or Fingerprint is the image on that server.
	Alias, Fingerprint string
	// Certificate is the server's, in PEM, where no authority vouches for it.
	Certificate string
	// AliasesToMake are those that the copy is to have.
	AliasesToMake []string
	// AutoUpdate has LXD fetch newer ones by itself.
	AutoUpdate bool
}

// Validate returns errors.NotValid, naming the field.
func (s ImageSource) Validate() error {
	switch {
	case s.Server == "":
		return errors.NotValidf("image source: empty Server")
	case s.Protocol != "simplestreams" && s.Protocol != "lxd":
		return errors.NotValidf("image source: Protocol %q (want simplestreams or lxd)", cut(s.Protocol, 32))
	case (s.Alias == "") == (s.Fingerprint == ""):
		return errors.NotValidf("image source: not exactly one of Alias and Fingerprint")
	}
	for _, alias := range s.AliasesToMake {
		if _, err := segment("image source: alias", alias); err != nil {
			return err
		}
	}
	return nil
}

// CopyImage has LXD fetch an image into its own store and waits until it is
// there; one that is there already is not fetched. It returns the fingerprint. An
// image that the server does not have and an alias that is there already give an
// error without a kind.
func (c *Client) CopyImage(ctx context.Context, source ImageSource) (string, error) {
	if err := source.Validate(); err != nil {
		return "", err
	}
	aliases := make([]map[string]string, 0, len(source.AliasesToMake))
	for _, alias := range source.AliasesToMake {
		aliases = append(aliases, map[string]string{"name": alias})
	}
	from := map[string]string{
		"type":     "image",
		"mode":     "pull",
		"server":   source.Server,
		"protocol": source.Protocol,
	}
	what := source.Alias
	if what != "" {
		from["alias"] = what
	} else {
		what = source.Fingerprint
		from["fingerprint"] = what
	}
	if source.Certificate != "" {
		from["certificate"] = source.Certificate
	}
	op, err := c.change(ctx, request{
		method: http.MethodPost,
		path:   "/1.0/images",
		body: map[string]any{
			"source":      from,
			"aliases":     aliases,
			"auto_update": source.AutoUpdate,
		},
	})
	var made struct {
		Fingerprint string `json:"fingerprint"`
	}
	if err == nil && (op == nil || json.Unmarshal(op.Metadata, &made) != nil || !fingerprint(made.Fingerprint)) {
		err = errors.New("answer without a fingerprint")
	}
	if err != nil {
		return "", errors.Annotatef(err, "fetching image %q", what)
	}
	return made.Fingerprint, nil
}

// fingerprint tells whether s is one in full.
func fingerprint(s string) bool {
	if len(s) != 64 {
		return false
	}
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return true
}
