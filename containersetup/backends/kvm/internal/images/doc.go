// Package images is a folder of disk images: base images, each fetched once and checked,
// and what belongs to instances.
package images
