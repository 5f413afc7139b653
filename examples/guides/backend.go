package guides

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// Folder is the type of the containers that [NewBackend] is about.
const Folder container.Type = "folder"

// What there is in the supervisor's home.
const (
	// watchFile tells the supervisor to look at the folder of instances.
	watchFile = "folders.conf"
	watchText = "watch instances\n"
	// instancesDir has a folder for each instance.
	instancesDir = "instances"
)

// The files in an instance's folder, all of mode 0600.
const (
	// labelFile says whose the instance is, and what it was made from.
	labelFile = "label.json"
	// userDataFile is what makes it an agent; there is a password in it.
	userDataFile = "user-data"
	// bootFile has the supervisor run the instance. It is written last.
	bootFile = "boot"
)

// newPrefix begins the names of folders that are being made, as removedPrefix
// does those of folders that are about to be gone. The supervisor looks at
// neither.
const newPrefix = ".new-"

// defaultBridge is where an interface is put that names no bridge, unless the
// settings say otherwise.
const defaultBridge = "br0"

// folders is a back end over a supervisor that runs a container in every folder
// that has a file called "boot". It is the Initialiser, and what the brokers
// share.
type folders struct {
	home   string // the supervisor's
	model  string // the model's UUID
	prefix string // of the names of its instances
	// lock has room for one: whoever puts something in holds it.
	lock chan struct{}
}

// NewBackend returns the back end for containers of the type [Folder], over the
// supervisor that has its home in that folder. Its instances are the model's.
// Nothing is looked at before it is used.
func NewBackend(home, modelUUID string) (container.Backend, error) {
	if !filepath.IsAbs(home) {
		return container.Backend{}, errors.NotValidf("relative home")
	}
	prefix, err := container.InstancePrefix(modelUUID)
	if err != nil {
		return container.Backend{}, err
	}
	f := &folders{home: home, model: modelUUID, prefix: prefix, lock: make(chan struct{}, 1)}
	return container.Backend{Initialiser: f, NewBroker: f.newBroker}, nil
}

// begin is how every call begins. Nothing is done for a caller that has given
// up.
func (f *folders) begin(ctx context.Context) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case f.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return func() { <-f.lock }, nil
}

// Initialise is part of container.Initialiser.
func (f *folders) Initialise(ctx context.Context) error {
	end, err := f.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	// The supervisor comes with the machine's image, or never.
	if there, err := exists(f.home); err != nil {
		return err
	} else if !there {
		return errors.NotSupportedf("%s containers without a supervisor", Folder)
	}
	if there, err := exists(f.instances()); err != nil {
		return err
	} else if !there {
		if err := os.Mkdir(f.instances(), 0o700); err != nil {
			return errors.Annotate(err, "making the folder of instances")
		}
	}
	// Last, since it is what newBroker goes by. A file that has that content
	// already is left alone.
	return write(f.home, watchFile, watchText)
}

// newBroker is the back end's NewBroker.
func (f *folders) newBroker(ctx context.Context, settings facade.ContainerManagerConfig) (container.Broker, error) {
	bridge := settings["default-bridge"]
	if bridge == "" {
		bridge = defaultBridge
	}
	if err := (facade.NetworkInterface{Name: bridge}).Validate(); err != nil {
		return nil, errors.Annotate(err, "default-bridge")
	}
	end, err := f.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if there, err := exists(filepath.Join(f.home, watchFile)); err != nil {
		return nil, err
	} else if !there {
		return nil, errors.NotYetAvailablef("back end for %s containers", Folder)
	}
	if err := f.sweep(); err != nil {
		return nil, err
	}
	return &folderBroker{folders: f, bridge: bridge}, nil
}

// sweep finishes what an earlier agent has left half removed, or not even half
// made.
func (f *folders) sweep() error {
	for _, prefix := range []string{newPrefix, removedPrefix} {
		left, err := filepath.Glob(filepath.Join(f.instances(), prefix+f.prefix+"*"))
		if err != nil {
			return errors.Annotate(err, "folder of instances")
		}
		for _, folder := range left {
			if err := os.RemoveAll(folder); err != nil {
				return errors.Annotate(err, "folder of instances")
			}
		}
	}
	return nil
}

func (f *folders) instances() string { return filepath.Join(f.home, instancesDir) }

func (f *folders) folder(name string) string { return filepath.Join(f.instances(), name) }

// label says whose an instance is. It has no secrets.
type label struct {
	Model      string                    `json:"model"`
	Container  string                    `json:"container"`
	Base       string                    `json:"base"`
	Tags       map[string]string         `json:"tags"`
	Interfaces []facade.NetworkInterface `json:"interfaces"`
}

// load returns an instance's label, and whether the supervisor runs it.
func (f *folders) load(name string) (l label, boots bool, err error) {
	if there, err := exists(f.folder(name)); err != nil {
		return label{}, false, err
	} else if !there {
		return label{}, false, errors.NotFoundf("instance %q", name)
	}
	data, err := os.ReadFile(filepath.Join(f.folder(name), labelFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return label{}, false, errors.Annotate(err, "reading a label")
	}
	if json.Unmarshal(data, &l) != nil || l.Model == "" || l.Container == "" {
		return label{}, false, errors.NotValidf("label of instance %q", name)
	}
	boots, err = exists(filepath.Join(f.folder(name), bootFile))
	return l, boots, err
}

// names returns the folders that may be this model's instances.
func (f *folders) names() ([]string, error) {
	entries, err := os.ReadDir(f.instances())
	if err != nil {
		return nil, errors.Annotate(err, "folder of instances")
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), f.prefix) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// remove takes an instance away, all at once by its name. Were it to lose one
// file after the other, a crash could leave one that runs and that nobody knows.
func (f *folders) remove(name string) error {
	removed := f.folder(removedPrefix + name)
	if err := os.RemoveAll(removed); err != nil {
		return errors.Annotate(err, "removing an instance")
	}
	if err := os.Rename(f.folder(name), removed); err != nil {
		return errors.Annotate(err, "removing an instance")
	}
	if err := syncFolder(f.instances()); err != nil {
		return errors.Annotate(err, "removing an instance")
	}
	return errors.Annotate(os.RemoveAll(removed), "removing an instance")
}

// folderBroker is the container.Broker of a [folders].
type folderBroker struct {
	*folders
	bridge string
}

// StartInstance is part of container.Broker.
func (b *folderBroker) StartInstance(ctx context.Context, params container.StartParams) (container.StartResult, error) {
	name, err := b.name(params)
	if err != nil {
		return container.StartResult{}, err
	}
	end, err := b.begin(ctx)
	if err != nil {
		return container.StartResult{}, err
	}
	defer end()
	l, boots, err := b.load(name)
	switch {
	case errors.Is(err, errors.NotFound):
		l, err = b.make(name, params)
	case err != nil:
		// Not replaced: who knows what it is.
	case l.Model != b.model || l.Container != params.ContainerID:
		err = errors.AlreadyExistsf("instance %q of another container", name)
	case !boots:
		// Half made, perhaps from what is not so any more.
		if err = b.remove(name); err == nil {
			l, err = b.make(name, params)
		}
	}
	if err != nil {
		return container.StartResult{}, err
	}
	// The last moment at which nothing runs yet.
	if err := ctx.Err(); err != nil {
		return container.StartResult{}, err
	}
	if err := write(b.folder(name), bootFile, "yes\n"); err != nil {
		return container.StartResult{}, err
	}
	return container.StartResult{InstanceID: container.InstanceID(name), Interfaces: l.Interfaces}, nil
}

// name checks what an instance is to be made from, and names it.
func (b *folderBroker) name(params container.StartParams) (string, error) {
	if err := params.Validate(); err != nil {
		return "", err
	}
	id, err := container.ParseID(params.ContainerID)
	if err != nil {
		return "", err
	}
	if id.Type != Folder {
		return "", errors.NotValidf("ContainerID %q (want a %s)", params.ContainerID, Folder)
	}
	return container.InstanceName(b.model, params.ContainerID)
}

// make makes an instance that does not run. It gets its name once it is
// labelled, so that whatever has a name is listed.
func (b *folderBroker) make(name string, params container.StartParams) (label, error) {
	l := label{
		Model:      b.model,
		Container:  params.ContainerID,
		Base:       params.Info.Base.Name + " " + params.Info.Base.Channel,
		Tags:       params.Info.Tags,
		Interfaces: slices.Clone(params.Interfaces),
	}
	for i := range l.Interfaces {
		if l.Interfaces[i].Parent == "" {
			l.Interfaces[i].Parent = b.bridge
		}
	}
	data, err := json.Marshal(l)
	if err != nil {
		return label{}, errors.Annotate(err, "labelling an instance")
	}
	unnamed := b.folder(newPrefix + name)
	if err := os.RemoveAll(unnamed); err != nil {
		return label{}, errors.Annotate(err, "making an instance")
	}
	if err := write(unnamed, labelFile, string(data)); err != nil {
		return label{}, err
	}
	if err := write(unnamed, userDataFile, params.Info.UserData.Reveal()); err != nil {
		return label{}, err
	}
	if err := os.Rename(unnamed, b.folder(name)); err != nil {
		return label{}, errors.Annotate(err, "making an instance")
	}
	return l, errors.Annotate(syncFolder(b.instances()), "making an instance")
}

// StopInstances is part of container.Broker.
func (b *folderBroker) StopInstances(ctx context.Context, ids ...container.InstanceID) []error {
	results := make([]error, len(ids))
	for i, id := range ids {
		results[i] = b.stop(ctx, string(id))
	}
	return results
}

// stop takes one instance away. Only what is not there for sure is success.
func (b *folderBroker) stop(ctx context.Context, name string) error {
	end, err := b.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	// It is looked for among the names that there are, and only then made a
	// path.
	names, err := b.names()
	if err != nil {
		return err
	}
	if !slices.Contains(names, name) {
		return nil
	}
	l, _, err := b.load(name)
	if err != nil {
		return err
	}
	if l.Model != b.model {
		return nil // another model's, which is none of this broker's
	}
	return b.remove(name)
}

// AllInstances is part of container.Broker.
func (b *folderBroker) AllInstances(ctx context.Context) ([]container.Instance, error) {
	end, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	names, err := b.names()
	if err != nil {
		return nil, err
	}
	var list []container.Instance
	for _, name := range names {
		l, boots, err := b.load(name)
		if errors.Is(err, errors.NotFound) || errors.Is(err, errors.NotValid) {
			// Nobody's, as far as can be told. Were it an error, nothing
			// could be done about all the others.
			continue
		}
		if err != nil {
			return nil, err
		}
		if l.Model != b.model {
			continue // two models may share a prefix
		}
		status := "half made"
		if boots {
			status = "boots"
		}
		list = append(list, container.Instance{
			ID:          container.InstanceID(name),
			ContainerID: l.Container,
			Running:     boots,
			Status:      status,
		})
	}
	return list, nil
}

// exists tells whether there is something at the path.
func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, errors.Annotate(err, "looking for what is there")
}
