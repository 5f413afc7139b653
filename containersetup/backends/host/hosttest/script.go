package hosttest

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
)

// Host is a host.Host in memory. Its zero value has no files, and refuses every command
// that no handler knows.
type Host struct {
	mu       sync.Mutex
	files    map[string][]byte
	modes    map[string]fs.FileMode
	handlers []handler
	holders  map[string]host.Process
	log      []string
	// left is how many changes may yet be made; negative for any number.
	left    int
	limited bool
}

// Handler answers a command. It may call the host's methods.
type Handler func(ctx context.Context, cmd host.Command) (host.Output, error)

type handler struct {
	pattern []string
	answer  Handler
}

// ErrCrashed is what a host answers to everything once it has made as many changes as
// [Host.CrashAfter] allowed.
const ErrCrashed = errors.ConstError("the host crashed")

// On has commands answered that begin with the words; "*" is for any one word, and no
// words are for any command. Of those that fit, the one that was added last answers.
func (h *Host) On(answer Handler, words ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handlers = append(h.handlers, handler{words, answer})
}

// Print returns a handler that prints a text and succeeds.
func Print(text string) Handler {
	return func(context.Context, host.Command) (host.Output, error) {
		return host.Output{Stdout: []byte(text)}, nil
	}
}

// Exit returns a handler that prints a text to standard error and exits with a code; the
// error tells the text's last line, as that of a real host does.
func Exit(code int, text string) Handler {
	return func(_ context.Context, cmd host.Command) (host.Output, error) {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		message := strings.TrimSpace(lines[len(lines)-1])
		return host.Output{Stderr: []byte(text)}, &host.ExitError{Program: cmd.Args[0], Code: code, Message: message}
	}
}

// SetFile puts a file there, unrecorded and whether crashed or not. A new one can be read
// by everybody.
func (h *Host) SetFile(name, content string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(name, []byte(content), 0o644)
}

func (h *Host) set(name string, data []byte, mode fs.FileMode) {
	if h.files == nil {
		h.files, h.modes = map[string][]byte{}, map[string]fs.FileMode{}
	}
	if _, ok := h.files[name]; !ok {
		h.modes[name] = mode
	}
	h.files[name] = slices.Clone(data)
}

// Files returns the names and contents of all files.
func (h *Host) Files() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]string{}
	for name, data := range h.files {
		out[name] = string(data)
	}
	return out
}

// Mode returns a file's permissions.
func (h *Host) Mode(name string) fs.FileMode {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.modes[name]
}

// HoldLock has a process hold a file's lock; nil frees it.
func (h *Host) HoldLock(name string, holder *host.Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if holder == nil {
		delete(h.holders, name)
		return
	}
	if h.holders == nil {
		h.holders = map[string]host.Process{}
	}
	h.holders[name] = *holder
}

// CrashAfter has the host make n more changes (commands that are not read-only, files
// written or removed), and answer [ErrCrashed] to everything after that. A negative n
// has it work for good.
func (h *Host) CrashAfter(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left, h.limited = n, n >= 0
}

// Changes returns what was changed, in order: "run ...", "write NAME", "remove NAME".
func (h *Host) Changes() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.log), func(line string) bool { return strings.HasPrefix(line, "look ") })
}

// Log returns everything that was asked for, in order; what was only looked at as
// "look ...".
func (h *Host) Log() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.log)
}

// step records what is done, and tells whether the host still does it.
func (h *Host) step(line string, changes bool) error {
	if h.limited && h.left <= 0 {
		return ErrCrashed
	}
	if changes && h.limited {
		h.left--
	}
	h.log = append(h.log, line)
	return nil
}

// Run is part of host.Commands.
func (h *Host) Run(ctx context.Context, cmd host.Command) (host.Output, error) {
	if err := cmd.Validate(); err != nil {
		return host.Output{}, err
	}
	if err := ctx.Err(); err != nil {
		return host.Output{}, errors.Annotate(err, cmd.Args[0]) // unrecorded: it was not begun
	}
	verb := "run "
	if cmd.ReadOnly {
		verb = "look "
	}
	h.mu.Lock()
	err := h.step(verb+cmd.String(), !cmd.ReadOnly)
	handlers := slices.Clone(h.handlers)
	h.mu.Unlock()
	if err != nil {
		return host.Output{}, err
	}
	for _, candidate := range slices.Backward(handlers) {
		if candidate.fits(cmd.Args) {
			return candidate.answer(ctx, cmd)
		}
	}
	return host.Output{}, errors.NotFoundf("program %q (no handler for %s)", cmd.Args[0], cmd)
}

func (h handler) fits(args []string) bool {
	if len(args) < len(h.pattern) {
		return false
	}
	for i, word := range h.pattern {
		if word != "*" && word != args[i] {
			return false
		}
	}
	return true
}

// ReadFile is part of host.Files.
func (h *Host) ReadFile(_ context.Context, name string) ([]byte, error) {
	name, err := absolute(name)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.step("look "+name, false); err != nil {
		return nil, err
	}
	data, ok := h.files[name]
	if !ok {
		return nil, errors.NotFoundf("file %q", name)
	}
	return slices.Clone(data), nil
}

// WriteFile is part of host.Files.
func (h *Host) WriteFile(_ context.Context, name string, data []byte, perm fs.FileMode) error {
	name, err := absolute(name)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.step("write "+name, true); err != nil {
		return err
	}
	h.set(name, data, perm)
	return nil
}

// Remove is part of host.Files.
func (h *Host) Remove(_ context.Context, name string) error {
	name, err := absolute(name)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.files[name]; !ok {
		return h.step("look "+name, false)
	}
	if err := h.step("remove "+name, true); err != nil {
		return err
	}
	delete(h.files, name)
	delete(h.modes, name)
	return nil
}

// Glob is part of host.Files.
func (h *Host) Glob(_ context.Context, pattern string) ([]string, error) {
	if _, err := absolute(pattern); err != nil {
		return nil, err
	}
	if _, err := filepath.Match(pattern, ""); err != nil {
		return nil, errors.NotValidf("pattern %q", pattern)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.step("look "+pattern, false); err != nil {
		return nil, err
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(h.files)) {
		if ok, err := filepath.Match(pattern, name); ok && err == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// LockHolder is part of host.Locks.
func (h *Host) LockHolder(_ context.Context, name string) (*host.Process, error) {
	name, err := absolute(name)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.step("look lock "+name, false); err != nil {
		return nil, err
	}
	if holder, ok := h.holders[name]; ok {
		return &holder, nil
	}
	return nil, nil
}

// absolute returns a name in its shortest form, or errors.NotValid.
func absolute(name string) (string, error) {
	if !filepath.IsAbs(name) {
		return "", errors.NotValidf("file name %q (want an absolute one)", name)
	}
	return filepath.Clean(name), nil
}

// String keeps contents of files out of logs.
func (h *Host) String() string { return fmt.Sprintf("a scripted host with %d files", len(h.Files())) }
