package controller

import (
	"context"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	"golang.org/x/crypto/bcrypt"

	"github.com/sutler-dev/sutler/facade"
)

func openState(t *testing.T, dir string, now time.Time) *State {
	t.Helper()
	s, err := OpenState(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.passwords.cost = bcrypt.MinCost
	return s
}

func TestStateIsKeptAndPrivate(t *testing.T) {
	dir := t.TempDir()
	s := openState(t, dir, time.Now())
	uuid, ca := s.ControllerUUID(), s.CACert()
	if errs := s.passwords.set(t.Context(), []facade.ApplicationPassword{password("db", "pw")}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openState(t, dir, time.Now())
	if s.ControllerUUID() != uuid || s.CACert() != ca {
		t.Error("another UUID or CA after opening it again")
	}
	if ok, err := s.passwords.check(t.Context(), "db", "pw"); !ok || err != nil {
		t.Errorf("got %v, %v; want the password kept", ok, err)
	}
	err := filepath.WalkDir(s.Dir(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestStateHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	s := openState(t, dir, time.Now())
	if _, err := OpenState(dir, time.Now()); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("got %v, want AlreadyExists", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openState(t, dir, time.Now())
}

func TestDamagedStateIsRefusedNotReplaced(t *testing.T) {
	for file, text := range map[string]string{
		"controller.yaml": "uuid: [secret-canary\n",
		"ca.pem":          "secret-canary",
		"passwords.yaml":  "db: secret-canary\n",
		"containers.yaml": "containers: {0/box/0: {state: secret-canary}}\n",
	} {
		t.Run(file, func(t *testing.T) {
			dir := t.TempDir()
			if err := openState(t, dir, time.Now()).Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, StateDir, file)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := OpenState(dir, time.Now())
			if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v; want NotValid, naming the file and quoting nothing", err)
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != text {
				t.Errorf("the file became %q, %v", data, err)
			}
		})
	}
}

func TestCANobodyElseMayRead(t *testing.T) {
	dir := t.TempDir()
	s := openState(t, dir, time.Now())
	_ = s.Close()
	if err := os.Chmod(filepath.Join(s.Dir(), caFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenState(dir, time.Now()); !errors.Is(err, errors.NotValid) {
		t.Errorf("got %v, want a CA that others can read refused", err)
	}
}

func TestCANearItsEndIsReplacedAtStart(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	first := openState(t, dir, now)
	_ = first.Close()
	same := openState(t, dir, now.Add(caLife-caReserve-time.Hour))
	_ = same.Close()
	if same.CACert() != first.CACert() {
		t.Error("replaced too early")
	}
	next := openState(t, dir, now.Add(caLife-caReserve+time.Hour))
	if next.CACert() == first.CACert() {
		t.Error("not replaced")
	}
}

func password(app, text string) facade.ApplicationPassword {
	return facade.ApplicationPassword{Name: app, Password: facade.NewSecret(text)}
}

func TestPasswordsAreSetOneByOne(t *testing.T) {
	s := openState(t, t.TempDir(), time.Now())
	errs := s.passwords.set(t.Context(), []facade.ApplicationPassword{
		password("db", "one"), password("empty", ""), password("long", strings.Repeat("x", 73)), password("web", "two"),
	})
	if len(errs) != 4 || errs[0] != nil || errs[3] != nil ||
		!errors.Is(errs[1], errors.NotValid) || !errors.Is(errs[2], errors.NotValid) {
		t.Fatalf("got %v", errs)
	}
	for _, test := range []struct {
		app, password string
		want          bool
	}{
		{"db", "one", true}, {"db", "two", false}, {"web", "two", true},
		{"empty", "", false}, {"long", "x", false}, {"none", "nobody", false},
	} {
		if got, err := s.passwords.check(t.Context(), test.app, test.password); got != test.want || err != nil {
			t.Errorf("%s with %q: got %v, %v", test.app, test.password, got, err)
		}
	}
}

func TestPasswordSetAgainIsLeftAlone(t *testing.T) {
	s := openState(t, t.TempDir(), time.Now())
	read := func() string {
		data, err := os.ReadFile(filepath.Join(s.Dir(), passwordsFile))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	s.passwords.set(t.Context(), []facade.ApplicationPassword{password("db", "one")})
	before := read()
	if strings.Contains(before, "one") {
		t.Error("the password is in the file")
	}
	s.passwords.set(t.Context(), []facade.ApplicationPassword{password("db", "one")})
	if read() != before {
		t.Error("hashed again")
	}
	s.passwords.set(t.Context(), []facade.ApplicationPassword{password("db", "two")})
	if read() == before {
		t.Error("not changed")
	}
}

func TestPasswordThatCannotBeStoredIsNotSet(t *testing.T) {
	s := openState(t, t.TempDir(), time.Now())
	s.passwords.path = filepath.Join(s.Dir(), "none", "passwords.yaml")
	if errs := s.passwords.set(t.Context(), []facade.ApplicationPassword{password("db", "one")}); errs[0] == nil {
		t.Error("want an error")
	}
	if ok, _ := s.passwords.check(t.Context(), "db", "one"); ok {
		t.Error("a restart would forget a password that lets in now")
	}
}

func TestCancelledCallWaitsForNoHash(t *testing.T) {
	s := openState(t, t.TempDir(), time.Now())
	for range cap(s.passwords.cpu) {
		s.passwords.cpu <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.passwords.check(ctx, "db", "one"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if errs := s.passwords.set(ctx, []facade.ApplicationPassword{password("db", "one")}); !errors.Is(errs[0], context.Canceled) {
		t.Errorf("got %v", errs)
	}
}

func TestPasswordsOfUnknownApplicationsAreNotFound(t *testing.T) {
	w := newWorld(t, v1App("db", ""))
	errs, err := w.SetPasswords(t.Context(), []facade.ApplicationPassword{
		password("none", "x"), password("db", "y"), password("../db", "z"),
	})
	if err != nil || len(errs) != 3 || !errors.Is(errs[0], errors.NotFound) || errs[1] != nil || !errors.Is(errs[2], errors.NotFound) {
		t.Errorf("got %v, %v", errs, err)
	}
}

func TestEndpointKeepsItsPort(t *testing.T) {
	w := newWorld(t, v1App("db", ""))
	addr := w.Address()
	w.stop()
	w.start()
	if w.Address() != addr {
		t.Errorf("got %s, want %s again", w.Address(), addr)
	}
}

func TestEndpointMovesWhenItsPortIsTaken(t *testing.T) {
	w := newWorld(t, v1App("db", ""))
	addr := w.Address()
	w.stop()
	other, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	w.start()
	moved := w.Address()
	if moved == addr {
		t.Fatal("the same port twice")
	}
	info, err := w.OperatorProvisioningInfo(t.Context(), "db")
	if err != nil || !slices.Equal(info.APIAddresses, []string{moved}) {
		t.Errorf("got %v, %v; want operators to be told the new address", info.APIAddresses, err)
	}
	// And it stays there: operators are not sent to and fro.
	w.stop()
	_ = other.Close()
	w.start()
	if w.Address() != moved {
		t.Errorf("got %s, want %s again", w.Address(), moved)
	}
}

func TestEndpointListensWhereItIsTold(t *testing.T) {
	s := openState(t, t.TempDir(), time.Now())
	logger := slog.New(slog.DiscardHandler)
	listen := func(want string) string {
		t.Helper()
		l, err := s.listen(t.Context(), want, logger)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		// By the name that was asked for: it is what operators are told.
		_, port, _ := net.SplitHostPort(l.Addr().String())
		host, _, _ := net.SplitHostPort(want)
		if got := net.JoinHostPort(host, port); s.settings.Address != got {
			t.Errorf("operators are told %s, want %s", s.settings.Address, got)
		}
		return s.settings.Address
	}
	first := listen("127.0.0.2:0")
	if again := listen("127.0.0.2:0"); again != first {
		t.Errorf("got %s, want %s again", again, first)
	}
	listen("localhost:0")
	if again := listen(first); again != first {
		t.Errorf("got %s, want %s", again, first)
	}
	for _, want := range []string{"127.0.0.1", "192.0.2.1:0"} {
		if l, err := s.listen(t.Context(), want, logger); err == nil {
			_ = l.Close()
			t.Errorf("%s: want an error", want)
		}
	}
	if s.settings.Address != first {
		t.Errorf("a failure changed the address to %s", s.settings.Address)
	}
}

func TestUUIDHasItsForm(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	s := openState(t, t.TempDir(), time.Now())
	if uuid := s.ControllerUUID(); len(uuid) != 36 || uuid[14] != '4' || uuid == newUUID() {
		t.Errorf("got %q", uuid)
	}
	l, err := s.listen(t.Context(), defaultListen, logger)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}
