package facade

import (
	"context"

	"github.com/juju/errors"
)

// ErrConnectionLost is the kind of error of a facade whose connection to the
// controller is gone for good. It ends the worker that sees it, which its
// engine starts again over a new connection. A call that merely timed out is
// not of this kind.
const ErrConnectionLost = errors.ConstError("controller connection lost")

// Applications is what the operator provisioner needs of a controller: the
// applications of one model.
type Applications interface {
	// WatchApplications names the model's applications and, later, those
	// that changed: added, removed, or of another life or charm. The caller
	// owns the watcher.
	WatchApplications(ctx context.Context) (StringsWatcher, error)

	// Life returns where the application is in its life, or
	// errors.NotFound when there is none of that name (any more).
	Life(ctx context.Context, app string) (Life, error)

	// CharmInfo describes the application's charm. It returns
	// errors.NotFound when the application, or its charm, is not there.
	CharmInfo(ctx context.Context, app string) (CharmInfo, error)

	// OperatorProvisioningInfo returns what the application's operator is
	// to be made from, as it is now. It returns errors.NotFound when the
	// application is not there.
	OperatorProvisioningInfo(ctx context.Context, app string) (OperatorProvisioningInfo, error)

	// SetPasswords makes each password the one with which the operator of
	// its application may log in. It returns one result per input, in the
	// same order; a nil result is success. The second value is for a
	// failure of the call as a whole. Setting a password again is
	// harmless.
	SetPasswords(ctx context.Context, passwords []ApplicationPassword) ([]error, error)

	// IssueOperatorCertificate returns a new certificate for the
	// application's operator, signed by the controller's current CA.
	IssueOperatorCertificate(ctx context.Context, app string) (OperatorCertificate, error)
}

// ProvisioningWatcher is an optional interface of an [Applications].
type ProvisioningWatcher interface {
	// WatchProvisioning names the applications whose addresses, version,
	// image, CA, tags or storage changed. A controller that cannot tell
	// returns errors.NotSupported, and the provisioner does without. The
	// caller owns the watcher.
	WatchProvisioning(ctx context.Context) (StringsWatcher, error)
}

// BulkApplications is an optional interface of an [Applications].
type BulkApplications interface {
	// ApplicationsInfo answers life and charm format for many applications
	// in one round trip: one result per input, in the same order, each
	// naming its application. An application that is not there has an
	// errors.NotFound in its own result. The second value is for a failure
	// of the call as a whole.
	ApplicationsInfo(ctx context.Context, apps []string) ([]ApplicationInfo, error)
}

// StatusSetter is an optional interface of an [Applications].
type StatusSetter interface {
	// SetProvisioningStatus makes what the provisioner is doing for an
	// application, or why it cannot, visible to the users of the model.
	// message is one line, empty with StatusProvisioned.
	SetProvisioningStatus(ctx context.Context, app string, status ProvisioningStatus, message string) error
}

// ProvisioningStatus is how far the provisioning of one application's operator
// has come, as its users see it.
type ProvisioningStatus string

const (
	// StatusProvisioned is an application whose operator is in place.
	StatusProvisioned ProvisioningStatus = "provisioned"
	// StatusWaiting is an application that waits for something that goes
	// on, such as the end of its previous operator.
	StatusWaiting ProvisioningStatus = "waiting"
	// StatusError is an application whose provisioning fails.
	StatusError ProvisioningStatus = "error"
)
