package fakes

import (
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// Features chooses among the optional interfaces of facade.Applications and
// operator.Manager, for [Controller.With] and [Manager.With]; join several
// with |.
type Features uint

const (
	// ProvisioningEvents is facade.ProvisioningWatcher.
	ProvisioningEvents Features = 1 << iota
	// BulkReads is facade.BulkApplications.
	BulkReads
	// StatusReports is facade.StatusSetter.
	StatusReports
	// Watching is operator.Watcher.
	Watching
	// Listing is operator.Lister.
	Listing
	// Staging is operator.Stager.
	Staging
	// Glancing is operator.Glancer.
	Glancing
)

// Plain returns the controller with no optional interface.
func (c *Controller) Plain() facade.Applications { return c.With(0) }

// With returns the controller with the optional interfaces chosen and no
// others.
func (c *Controller) With(f Features) facade.Applications {
	type (
		A = facade.Applications
		W = facade.ProvisioningWatcher
		B = facade.BulkApplications
		S = facade.StatusSetter
	)
	switch f & (ProvisioningEvents | BulkReads | StatusReports) {
	case ProvisioningEvents:
		return struct {
			A
			W
		}{c, c}
	case BulkReads:
		return struct {
			A
			B
		}{c, c}
	case StatusReports:
		return struct {
			A
			S
		}{c, c}
	case ProvisioningEvents | BulkReads:
		return struct {
			A
			W
			B
		}{c, c, c}
	case ProvisioningEvents | StatusReports:
		return struct {
			A
			W
			S
		}{c, c, c}
	case BulkReads | StatusReports:
		return struct {
			A
			B
			S
		}{c, c, c}
	case ProvisioningEvents | BulkReads | StatusReports:
		return c
	}
	return struct{ A }{c}
}

// Plain returns the manager with no optional interface.
func (m *Manager) Plain() operator.Manager { return m.With(0) }

// With returns the manager with the optional interfaces chosen and no others.
func (m *Manager) With(f Features) operator.Manager {
	type (
		M = operator.Manager
		W = operator.Watcher
		L = operator.Lister
		S = operator.Stager
		G = operator.Glancer
	)
	switch f & (Watching | Listing | Staging | Glancing) {
	case Watching:
		return struct {
			M
			W
		}{m, m}
	case Listing:
		return struct {
			M
			L
		}{m, m}
	case Staging:
		return struct {
			M
			S
		}{m, m}
	case Glancing:
		return struct {
			M
			G
		}{m, m}
	case Watching | Listing:
		return struct {
			M
			W
			L
		}{m, m, m}
	case Watching | Staging:
		return struct {
			M
			W
			S
		}{m, m, m}
	case Watching | Glancing:
		return struct {
			M
			W
			G
		}{m, m, m}
	case Listing | Staging:
		return struct {
			M
			L
			S
		}{m, m, m}
	case Listing | Glancing:
		return struct {
			M
			L
			G
		}{m, m, m}
	case Staging | Glancing:
		return struct {
			M
			S
			G
		}{m, m, m}
	case Watching | Listing | Staging:
		return struct {
			M
			W
			L
			S
		}{m, m, m, m}
	case Watching | Listing | Glancing:
		return struct {
			M
			W
			L
			G
		}{m, m, m, m}
	case Watching | Staging | Glancing:
		return struct {
			M
			W
			S
			G
		}{m, m, m, m}
	case Listing | Staging | Glancing:
		return struct {
			M
			L
			S
			G
		}{m, m, m, m}
	case Watching | Listing | Staging | Glancing:
		return m
	}
	return struct{ M }{m}
}
