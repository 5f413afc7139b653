//go:build !linux

package process

import (
	"context"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// Manager keeps operators as processes, on Linux. There is none here.
type Manager struct{}

// New returns errors.NotSupported, or errors.NotValid for a bad config.
func New(config Config) (*Manager, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "process manager")
	}
	return nil, unsupported()
}

func unsupported() error { return errors.NotSupportedf("operators as processes on this system") }

// Kill does nothing.
func (*Manager) Kill() {}

// Wait returns nil.
func (*Manager) Wait() error { return nil }

// Report returns nil.
func (*Manager) Report() map[string]any { return nil }

// OperatorExists returns errors.NotSupported.
func (*Manager) OperatorExists(context.Context, string) (operator.State, error) {
	return operator.State{}, unsupported()
}

// Operator returns errors.NotSupported.
func (*Manager) Operator(context.Context, string) (*operator.Operator, error) {
	return nil, unsupported()
}

// EnsureOperator returns errors.NotSupported.
func (*Manager) EnsureOperator(context.Context, string, string, *operator.Config) error {
	return unsupported()
}

// StageOperator returns errors.NotSupported.
func (*Manager) StageOperator(context.Context, string, string, *operator.Config) (string, error) {
	return "", unsupported()
}

// DeleteOperator returns errors.NotSupported.
func (*Manager) DeleteOperator(context.Context, string) error { return unsupported() }

// Operators returns errors.NotSupported.
func (*Manager) Operators(context.Context) ([]string, error) { return nil, unsupported() }

// WatchOperators returns errors.NotSupported.
func (*Manager) WatchOperators(context.Context) (facade.StringsWatcher, error) {
	return nil, unsupported()
}

// StopOperators returns errors.NotSupported.
func (*Manager) StopOperators(context.Context) error { return unsupported() }
