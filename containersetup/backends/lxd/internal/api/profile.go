package api

import (
	"context"
	"net/http"

	"github.com/juju/errors"
)

// Devices are those of an instance or a profile: by name, their properties.
type Devices map[string]map[string]string

// Profile is what instances have in common.
type Profile struct {
	Name        string
	Description string
	Config      map[string]string
	Devices     Devices
	// UsedBy are the paths of the instances that have it.
	UsedBy []string
}

// profileJSON is LXD's form of what can be set of a Profile.
type profileJSON struct {
	Description string            `json:"description"`
	Config      map[string]string `json:"config"`
	Devices     Devices           `json:"devices"`
}

// Profile returns one and its ETag, or errors.NotFound.
func (c *Client) Profile(ctx context.Context, name string) (Profile, string, error) {
	part, err := segment("profile", name)
	if err != nil {
		return Profile{}, "", err
	}
	var raw struct {
		profileJSON
		Name   string   `json:"name"`
		UsedBy []string `json:"used_by"`
	}
	etag, err := c.get(ctx, request{path: "/1.0/profiles/" + part}, &raw)
	if err != nil {
		return Profile{}, "", errors.Annotatef(err, "profile %q", name)
	}
	return Profile{
		Name:        raw.Name,
		Description: raw.Description,
		Config:      raw.Config,
		Devices:     raw.Devices,
		UsedBy:      raw.UsedBy,
	}, etag, nil
}

// PutProfile replaces a profile's description, configuration and devices. It
// returns [ErrChanged] when the ETag is not empty and not the profile's, and
// errors.NotFound when there is no such profile.
func (c *Client) PutProfile(ctx context.Context, profile Profile, etag string) error {
	part, err := segment("profile", profile.Name)
	if err != nil {
		return err
	}
	_, err = c.change(ctx, request{
		method: http.MethodPut,
		path:   "/1.0/profiles/" + part,
		body: profileJSON{
			Description: profile.Description,
			Config:      profile.Config,
			Devices:     profile.Devices,
		},
		etag:    etag,
		configs: []map[string]string{profile.Config},
	})
	if errors.Is(err, errors.NotFound) {
		if _, _, look := c.Profile(ctx, profile.Name); look == nil {
			err = ofAnother(err)
		}
	}
	return errors.Annotatef(err, "changing profile %q", profile.Name)
}
