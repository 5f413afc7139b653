package controller

import (
	"context"
	"maps"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/juju/errors"
	"golang.org/x/crypto/bcrypt"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/examples/agent/internal/files"
	"github.com/sutler-dev/sutler/facade"
)

// maxPassword is what bcrypt takes, in bytes.
const maxPassword = 72

// passwords are the operators', as bcrypt hashes, on disk and in memory.
type passwords struct {
	path string
	// cpu bounds how many hashes are computed at once: each takes a good
	// part of a tenth of a second, and everybody may ask to log in.
	cpu chan struct{}
	// cost is bcrypt's. What the provisioner mints cannot be guessed at any
	// cost; the default is for what a person might set.
	cost int
	// nobody is a hash to compare with when there is no such application,
	// so that the answer takes as long. It is made when it is first needed.
	nobody func() []byte

	mu     sync.Mutex
	hashes map[string]string // by application
}

func openPasswords(path string) (*passwords, error) {
	p := &passwords{
		path:   path,
		cpu:    make(chan struct{}, runtime.GOMAXPROCS(0)),
		cost:   bcrypt.DefaultCost,
		hashes: map[string]string{},
	}
	p.nobody = sync.OnceValue(func() []byte {
		hash, _ := bcrypt.GenerateFromPassword([]byte("nobody"), p.cost) // fails for bad input only
		return hash
	})
	data, err := files.Read(path, maxPasswords)
	switch {
	case errors.Is(err, errors.NotFound):
		return p, nil
	case err != nil:
		return nil, err
	}
	if err := yaml.Unmarshal(data, &p.hashes); err != nil {
		return nil, errors.NotValidf("%s", filepath.Base(path))
	}
	for app, hash := range p.hashes {
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return nil, errors.NotValidf("%s: hash of application %q", filepath.Base(path), app)
		}
	}
	return p, nil
}

// set keeps the passwords, with one result per input, and returns when they are
// on disk. A password that is set already is left as it is.
func (p *passwords) set(ctx context.Context, list []facade.ApplicationPassword) []error {
	results := make([]error, len(list))
	hashes := make([]string, len(list))
	var wg sync.WaitGroup
	for i, item := range list {
		wg.Go(func() { hashes[i], results[i] = p.hash(ctx, item) })
	}
	wg.Wait()

	p.mu.Lock()
	defer p.mu.Unlock()
	next := maps.Clone(p.hashes)
	for i, item := range list {
		if results[i] == nil {
			next[item.Name] = hashes[i]
		}
	}
	if maps.Equal(next, p.hashes) {
		return results
	}
	if err := p.save(next); err != nil {
		for i := range results {
			if results[i] == nil {
				results[i] = err
			}
		}
		return results
	}
	p.hashes = next
	return results
}

// hash returns the hash to keep for one password: the present one if it fits.
func (p *passwords) hash(ctx context.Context, item facade.ApplicationPassword) (string, error) {
	password := []byte(item.Password.Reveal())
	if len(password) == 0 || len(password) > maxPassword {
		return "", errors.NotValidf("password of %d bytes (want 1 to %d)", len(password), maxPassword)
	}
	if err := p.acquire(ctx); err != nil {
		return "", err
	}
	defer p.release()
	if old := p.get(item.Name); old != "" && bcrypt.CompareHashAndPassword([]byte(old), password) == nil {
		return old, nil
	}
	hash, err := bcrypt.GenerateFromPassword(password, p.cost)
	return string(hash), errors.Trace(err)
}

// check tells whether that is the application's password. An error says that
// the question was not answered.
func (p *passwords) check(ctx context.Context, app, password string) (bool, error) {
	if err := p.acquire(ctx); err != nil {
		return false, err
	}
	defer p.release()
	hash := p.get(app)
	if hash == "" {
		_ = bcrypt.CompareHashAndPassword(p.nobody(), []byte(password))
		return false, nil
	}
	return bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil, nil
}

func (p *passwords) get(app string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hashes[app]
}

func (p *passwords) save(hashes map[string]string) error {
	data, err := yaml.Marshal(hashes)
	if err != nil {
		return errors.Trace(err)
	}
	return files.Write(p.path, data)
}

func (p *passwords) acquire(ctx context.Context) error {
	select {
	case p.cpu <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *passwords) release() { <-p.cpu }
