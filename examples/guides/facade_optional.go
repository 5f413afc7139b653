package guides

import (
	"context"

	"github.com/sutler-dev/sutler/facade"
)

// FullFacade is a Facade for a controller that can do more.
type FullFacade struct{ *Facade }

var (
	_ facade.ProvisioningWatcher = FullFacade{}
	_ facade.BulkApplications    = FullFacade{}
	_ facade.StatusSetter        = FullFacade{}
)

// Connected returns what there is of a facade for a controller of that API
// version.
func Connected(conn Conn, version int) facade.Applications {
	if version < 2 {
		return NewFacade(conn)
	}
	return FullFacade{NewFacade(conn)}
}

// WatchProvisioning is part of facade.ProvisioningWatcher.
func (f FullFacade) WatchProvisioning(ctx context.Context) (facade.StringsWatcher, error) {
	return f.watch(ctx, "provisioning")
}

// ApplicationsInfo is part of facade.BulkApplications.
func (f FullFacade) ApplicationsInfo(ctx context.Context, apps []string) ([]facade.ApplicationInfo, error) {
	var answer []struct {
		Application string       `json:"application"`
		Life        facade.Life  `json:"life"`
		Format      int          `json:"format"`
		CharmError  *RemoteError `json:"charm-error"`
		Error       *RemoteError `json:"error"`
	}
	if err := f.call(ctx, "info", apps, &answer); err != nil {
		return nil, err
	}
	infos := make([]facade.ApplicationInfo, len(answer))
	for i, a := range answer {
		infos[i] = facade.ApplicationInfo{Name: a.Application, Life: a.Life, Format: a.Format}
		// Not withKind of a nil pointer: that would be an error that is
		// not nil.
		if a.Error != nil {
			infos[i].Err = withKind(a.Error)
		}
		if a.CharmError != nil {
			infos[i].FormatErr = withKind(a.CharmError)
		}
	}
	return infos, nil
}

// SetProvisioningStatus is part of facade.StatusSetter.
func (f FullFacade) SetProvisioningStatus(ctx context.Context, app string, status facade.ProvisioningStatus, message string) error {
	return f.call(ctx, "set-status", struct {
		Application string                    `json:"application"`
		Status      facade.ProvisioningStatus `json:"status"`
		Message     string                    `json:"message"`
	}{app, status, message}, nil)
}
