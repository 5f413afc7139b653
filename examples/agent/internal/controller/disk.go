package controller

import (
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/sutler-dev/sutler/examples/agent/internal/model"
)

const (
	// quiet is for how long nothing must happen before the model is read:
	// an editor that saves does several things in a row.
	quiet = 100 * time.Millisecond
	// patience is after how long it is read although things keep happening.
	patience = time.Second
	// rescan is how often it is read without any event. Not every file
	// system tells of changes, and the kernel drops events that are not
	// taken in time.
	rescan = 15 * time.Second
)

// disk watches the directories of a model.
type disk struct {
	dir string
	// notify is nil where the kernel has no more watches to give.
	notify *fsnotify.Watcher
}

func watchDisk(dir string) (*disk, error) {
	notify, err := fsnotify.NewWatcher()
	return &disk{dir: dir, notify: notify}, err
}

func (d *disk) close() {
	if d.notify != nil {
		_ = d.notify.Close()
	}
}

// events returns the kernel's, or nil, which never says anything.
func (d *disk) events() (<-chan fsnotify.Event, <-chan error) {
	if d.notify == nil {
		return nil, nil
	}
	return d.notify.Events, d.notify.Errors
}

// follow watches every directory that is there now. A directory that is gone is
// no longer watched by itself, and one that is watched already stays so. It is
// called before the model is read, so that what happens after the reading is
// seen.
func (d *disk) follow() error {
	if d.notify == nil {
		return nil
	}
	apps := filepath.Join(d.dir, model.ApplicationsDir)
	var first error
	add := func(dir string) {
		if err := d.add(dir); first == nil {
			first = err
		}
	}
	// The top ones first, and before they are listed: what appears in them
	// later is an event.
	add(d.dir)
	add(apps)
	add(filepath.Join(d.dir, model.ContainersDir))
	entries, _ := os.ReadDir(apps) // an error is for the reading to tell
	for _, entry := range entries {
		add(filepath.Join(apps, entry.Name()))
		add(filepath.Join(apps, entry.Name(), model.CharmDir))
	}
	return first
}

// add watches a directory if it is there.
func (d *disk) add(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return nil //nolint:nilerr // what is not there is not watched
	}
	if err := d.notify.Add(dir); !os.IsNotExist(err) {
		return err
	}
	return nil
}

// settle tells when to read the model after an event now, given the time of the
// first event that was not acted on.
func settle(first, now time.Time) time.Duration {
	return max(0, min(quiet, first.Add(patience).Sub(now)))
}
