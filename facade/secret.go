package facade

import (
	"crypto/subtle"
	"fmt"
	"log/slog"

	"github.com/juju/errors"
)

// Redacted is what every [Secret] shows instead of its content.
const Redacted = "[redacted]"

// Secret is a text that must not be seen: a password, a token, a private key,
// a file that holds one of them. It shows itself as [Redacted] to fmt (all
// verbs), to log/slog and to the JSON, YAML and text marshallers, also as a
// field of another value, exported or not. Only [Secret.Reveal] gives it away.
//
// The zero value is the empty secret. Secrets are compared with
// [Secret.Equal], not with ==. A Secret is immutable and safe for use by many
// goroutines.
type Secret struct {
	// A pointer, so that reflection over an unexported field of this type,
	// where fmt cannot call Format, finds an address and not the text.
	text *string
}

// NewSecret returns a Secret that holds text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal returns the text itself. Whoever calls it owns keeping it out of
// logs, errors, reports and command lines.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether the secret is empty. Marshallers that leave out zero
// values use it.
func (s Secret) IsZero() bool { return s.text == nil || *s.text == "" }

// Equal reports whether both secrets hold the same text, in a time that
// depends only on its length.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String returns [Redacted].
func (Secret) String() string { return Redacted }

// GoString returns [Redacted].
func (Secret) GoString() string { return Redacted }

// Format writes [Redacted], whatever the verb and flags.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// LogValue returns [Redacted].
func (Secret) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalText returns [Redacted]: a Secret does not travel by accident. Code
// that must write it, to a wire or a private file, calls [Secret.Reveal].
func (Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// MarshalYAML returns [Redacted].
func (Secret) MarshalYAML() (any, error) { return Redacted, nil }

// UnmarshalText takes the text as the secret's content. It returns
// errors.NotValid for [Redacted] itself, which is what is left of a secret that
// was marshalled: the content is gone.
func (s *Secret) UnmarshalText(text []byte) error {
	if string(text) == Redacted {
		return errors.NotValidf("secret that was redacted when it was written")
	}
	*s = NewSecret(string(text))
	return nil
}
