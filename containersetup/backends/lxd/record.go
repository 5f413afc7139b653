package lxd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/juju/errors"
)

// record is what was done to the host, so that it can be undone. It is written before
// each step: what is in it was done, or may have been when the agent died.
type record struct {
	Version int `json:"version"`
	// ID is on whatever is made, so that it is known again.
	ID    string `json:"id"`
	Steps []step `json:"steps"`
}

const recordVersion = 1

// markKey is the key in LXD's configuration that has a record's ID.
const markKey = "user.sutler.made-by"

func (i *Initialiser) recordName() string {
	return filepath.Join(i.config.StateDir, "lxd-host.json")
}

// readRecord returns what was done so far.
func (i *Initialiser) readRecord(ctx context.Context) (record, error) {
	data, err := i.config.Host.ReadFile(ctx, i.recordName())
	if errors.Is(err, errors.NotFound) {
		return record{Version: recordVersion, ID: rand.Text()}, nil
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

func (i *Initialiser) writeRecord(ctx context.Context, r record) error {
	if len(r.Steps) == 0 {
		return errors.Annotate(i.config.Host.Remove(ctx, i.recordName()), "removing the record of what was done to the host")
	}
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return errors.Trace(err)
	}
	// Private: a proxy's address may have a password in it.
	return errors.Annotate(i.config.Host.WriteFile(ctx, i.recordName(), data, 0o600), "recording what is done to the host")
}

// note adds a step, and keeps what was there before the first time.
func (r *record) note(s step) {
	n := slices.IndexFunc(r.Steps, func(old step) bool { return old.Kind == s.Kind && old.Name == s.Name })
	if n < 0 {
		r.Steps = append(r.Steps, s)
		return
	}
	if s.Had != nil {
		s.Had = firstKnown(r.Steps[n].Had, s.Had)
	}
	s.Before = r.Steps[n].Before
	for _, name := range r.Steps[n].Added {
		if !slices.Contains(s.Added, name) {
			s.Added = append(s.Added, name)
		}
	}
	r.Steps[n] = s
}

// step returns the recorded step of that kind and name.
func (r *record) step(like step) step {
	n := slices.IndexFunc(r.Steps, func(s step) bool { return s.Kind == like.Kind && s.Name == like.Name })
	return r.Steps[n]
}

// firstKnown is what was known first.
func firstKnown(lists ...[]string) []string {
	for _, list := range lists {
		if list != nil {
			return list
		}
	}
	return nil
}

// without returns the names that are not among others.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}
