package images_test

import (
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/images"
)

// FuzzSource has no address break anything, or be quoted in an error: a password may be
// anywhere in it.
func FuzzSource(f *testing.F) {
	sum := strings.Repeat("0a", 32)
	for _, seed := range []string{"file:///x", "http://u:p@x/y", "https://[::1]:80/x?y#z", "http://%zz", "http:x", "://", "file://x/%2e%2e", "ftp://x"} {
		f.Add(seed, sum)
	}
	f.Add("http://x", "0A")
	f.Fuzz(func(t *testing.T, url, sum string) {
		err := images.Source{URL: url, SHA256: sum}.Validate()
		if err != nil && !errors.Is(err, errors.NotValid) {
			t.Fatal(err)
		}
		if err == nil {
			scheme, _, _ := strings.Cut(strings.ToLower(url), ":")
			if scheme != "file" && scheme != "http" && scheme != "https" || len(sum) != 64 {
				t.Errorf("%q with %q is taken", url, sum)
			}
			return
		}
		// The scheme alone may be told.
		if _, rest, ok := strings.Cut(url, ":"); ok && len(rest) > 12 && !strings.Contains("file:///PATH, http://... or https://...", rest) && strings.Contains(err.Error(), rest) {
			t.Errorf("%v", err)
		}
	})
}
