package virt_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
)

func newClient(t *testing.T, config virt.Config) *virt.Client {
	t.Helper()
	config.Clock = clock.WallClock
	client, err := virt.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// kind is what a caller can tell of an error.
func kind(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, errors.Timeout):
		return "timeout"
	case errors.Is(err, errors.NotFound):
		return "not found"
	case errors.Is(err, errors.AlreadyExists):
		return "exists"
	case errors.Is(err, errors.NotSupported):
		return "not supported"
	case errors.Is(err, errors.NotYetAvailable):
		return "not yet available"
	case errors.Is(err, errors.NotValid):
		return "not valid"
	case errors.Is(err, errors.Forbidden):
		return "forbidden"
	}
	return "error"
}

func wantKind(t *testing.T, err error, want string) {
	t.Helper()
	if got := kind(err); got != want {
		t.Errorf("%s (%v), want %s", got, err, want)
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("an error in several lines: %q", err)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within fails the test when f takes far longer than it should; nothing is concluded from
// less.
func within(t *testing.T, limit time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s: not within %s", what, limit)
	}
}

// machine is a domain that has nothing to boot from, and runs all the same.
func machine(kind, name, metadata string) string {
	disk := ""
	if kind == "qemu" {
		disk = `<features><acpi/></features><devices><controller type="usb" model="none"/></devices>`
	}
	return fmt.Sprintf(`<domain type=%q><name>%s</name><metadata>%s</metadata><memory unit="MiB">64</memory>
<vcpu>1</vcpu><os><type>hvm</type></os>%s</domain>`, kind, name, metadata, disk)
}
