package lxd

import (
	"context"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
	"github.com/sutler-dev/sutler/facade"
)

// Where images come from when nothing else is configured.
const (
	ubuntuServer = "https://cloud-images.ubuntu.com/releases"
	otherServer  = "https://images.lxd.canonical.com"
)

// imageAttribute names an image, by fingerprint or by an alias that the daemon has, for
// one container.
const imageAttribute = "image"

// image returns the fingerprint of the image for a container, which the daemon has then.
func (b *Broker) image(ctx context.Context, info facade.ContainerProvisioningInfo) (string, error) {
	if name := info.Attributes[imageAttribute]; name != "" {
		return b.named(ctx, name)
	}
	alias := aliasOf(info.Base)
	fingerprint, err := b.quick.ImageAlias(ctx, alias)
	if !errors.Is(err, errors.NotFound) {
		return fingerprint, err
	}
	// One at a time: several at once would share what there is of a network, and for
	// one image most of them would fetch it for nothing.
	select {
	case b.fetching <- struct{}{}:
		defer func() { <-b.fetching }()
	case <-ctx.Done():
		return "", errors.Annotate(ctx.Err(), "waiting for another image to be fetched")
	}
	fingerprint, err = b.quick.ImageAlias(ctx, alias)
	if !errors.Is(err, errors.NotFound) {
		return fingerprint, err
	}
	source := sourceOf(b.config.Images, info.Base)
	source.AliasesToMake = []string{alias}
	b.log(ctx, "fetching the image "+alias, alias)
	fingerprint, err = b.slow.CopyImage(ctx, source)
	if err != nil {
		// Somebody else, or an earlier call that lost its reply, may have fetched it.
		if there, lookErr := b.quick.ImageAlias(ctx, alias); lookErr == nil {
			return there, nil
		}
		return "", errors.Annotatef(err, "from %s", source.Server)
	}
	return fingerprint, nil
}

// named returns the image of that fingerprint or alias.
func (b *Broker) named(ctx context.Context, name string) (string, error) {
	fingerprint, err := b.quick.ImageAlias(ctx, name)
	if !errors.Is(err, errors.NotFound) {
		return fingerprint, err
	}
	image, imageErr := b.quick.Image(ctx, name)
	if imageErr != nil {
		return "", err // of the alias: that is what people write
	}
	return image.Fingerprint, nil
}

// track is the first part of a channel: "22.04" of "22.04/stable".
func track(base facade.Base) string {
	t, _, _ := strings.Cut(base.Channel, "/")
	return t
}

// aliasOf is what the daemon knows the image of a base by.
func aliasOf(base facade.Base) string { return base.Name + "/" + track(base) }

func sourceOf(c ImageConfig, base facade.Base) api.ImageSource {
	source := api.ImageSource{Server: c.Server, Protocol: c.Protocol, Alias: aliasOf(base), AutoUpdate: true}
	if base.Name == "ubuntu" && c.Protocol == "simplestreams" {
		source.Alias = track(base) // Ubuntu's own server has nothing else
	}
	switch {
	case source.Server != "":
	case base.Name == "ubuntu":
		source.Server = ubuntuServer
	default:
		source.Server = otherServer
	}
	return source
}
