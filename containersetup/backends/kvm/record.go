package kvm

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
)

// record is what was done to the host, so that it can be undone. It is written before
// each step: what is in it was done, or may have been when the agent died.
type record struct {
	Version int `json:"version"`
	// ID is the UUID of the pool that is made, by which it is known again.
	ID    string `json:"id"`
	Steps []step `json:"steps"`
}

const recordVersion = 1

func (i *Initialiser) recordName() string {
	return filepath.Join(i.config.StateDir, "kvm-host.json")
}

// readRecord returns what was done so far.
func (i *Initialiser) readRecord(ctx context.Context) (record, error) {
	data, err := i.config.Host.ReadFile(ctx, i.recordName())
	if errors.Is(err, errors.NotFound) {
		return record{Version: recordVersion, ID: newUUID()}, nil
	}
	if err != nil {
		return record{}, errors.Annotate(err, "reading what was done to the host")
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil || r.ID == "" {
		return record{}, errors.NotValidf("record of what was done to the host in %s: it", i.recordName())
	}
	if r.Version != recordVersion {
		return record{}, errors.NotSupportedf("record of version %d in %s, made by another version of this agent,", r.Version, i.recordName())
	}
	return r, nil
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (i *Initialiser) writeRecord(ctx context.Context, r record) error {
	if len(r.Steps) == 0 {
		return errors.Annotate(i.config.Host.Remove(ctx, i.recordName()), "removing the record of what was done to the host")
	}
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return errors.Trace(err)
	}
	// The hypervisor has to get through to the images; one that is there stays as it is.
	if _, err := i.config.Host.Run(ctx, host.Do("mkdir", "-p", "-m", "711", i.config.StateDir)); err != nil {
		return errors.Annotate(err, "making the state folder")
	}
	return errors.Annotate(i.config.Host.WriteFile(ctx, i.recordName(), data, 0o600), "recording what is done to the host")
}

// note adds a step, and keeps what was there before the first time.
func (r *record) note(s step) {
	n := slices.IndexFunc(r.Steps, func(old step) bool { return old.Kind == s.Kind && old.Name == s.Name })
	if n < 0 {
		r.Steps = append(r.Steps, s)
		return
	}
	if s.Had != nil && r.Steps[n].Had != nil {
		s.Had = r.Steps[n].Had
	}
	s.Packages = union(s.Packages, r.Steps[n].Packages)
	s.Added = union(s.Added, r.Steps[n].Added)
	r.Steps[n] = s
}

// step returns the recorded step of that kind and name.
func (r *record) step(like step) step {
	n := slices.IndexFunc(r.Steps, func(s step) bool { return s.Kind == like.Kind && s.Name == like.Name })
	return r.Steps[n]
}

// union returns names, and of others those that are not among them.
func union(names, others []string) []string {
	return append(slices.Clone(names), without(others, names)...)
}

// without returns the names that are not among others.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}
