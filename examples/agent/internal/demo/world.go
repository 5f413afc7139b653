package demo

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/juju/errors"
	"golang.org/x/crypto/bcrypt"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// write writes a file of the model as a careful editor does: a new file takes
// the old one's place.
func (s *stage) write(name, text string) error {
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return errors.Trace(err)
	}
	tmp := path + "~"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(os.Rename(tmp, path))
}

// deploy adds an application to the model.
func (s *stage) deploy(name, application, metadata, manifest string) error {
	dir := "applications/" + name
	// The charm first: without it the application would have to wait.
	if err := s.write(dir+"/charm/metadata.yaml", metadata); err != nil {
		return err
	}
	if manifest != "" {
		if err := s.write(dir+"/charm/manifest.yaml", manifest); err != nil {
			return err
		}
	}
	return s.write(dir+"/application.yaml", application)
}

// credentials are what an operator logs in with and what the controller knows
// of it.
type credentials struct {
	password facade.Secret
	hash     string
}

// readCredentials reads the operator's password from both its files and checks
// it against the controller's hash.
func (s *stage) readCredentials(ctx context.Context, app string) (credentials, error) {
	var c credentials
	files, err := s.home.confs(ctx, app)
	if err != nil {
		return c, err
	}
	for _, data := range files {
		conf, err := agentconf.Parse(data)
		if err != nil {
			return c, errors.Trace(err)
		}
		if !c.password.IsZero() && !c.password.Equal(conf.Password()) {
			return c, errors.Errorf("%s has two passwords", app)
		}
		c.password = conf.Password()
	}
	hashes, err := s.hashes()
	if err != nil {
		return c, err
	}
	c.hash = hashes[app]
	if bcrypt.CompareHashAndPassword([]byte(c.hash), []byte(c.password.Reveal())) != nil {
		return c, errors.Errorf("%s has a password that is not the controller's", app)
	}
	return c, nil
}

func (s *stage) hashes() (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(s.stateDir(), "passwords.yaml"))
	if err != nil {
		return nil, errors.Trace(err)
	}
	hashes := map[string]string{}
	return hashes, errors.Trace(yaml.Unmarshal(data, &hashes))
}

// samePassword checks that neither the operator's password nor the controller's
// hash of it changed.
func (s *stage) samePassword(ctx context.Context, app string) error {
	c, err := s.readCredentials(ctx, app)
	if err != nil {
		return err
	}
	if was := s.keys[app]; !c.password.Equal(was.password) || c.hash != was.hash {
		return errors.Errorf("the password of %s changed", app)
	}
	return nil
}

// checkCertificate calls the operator up and checks that it shows a certificate
// of the controller's CA for its name, and the one that it told of.
func (s *stage) checkCertificate(ctx context.Context, app, addr, fingerprint string) error {
	ca, err := os.ReadFile(filepath.Join(s.stateDir(), "ca.pem"))
	if err != nil {
		return errors.Trace(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return errors.New("the controller has no CA certificate")
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: app, MinVersion: tls.VersionTLS13}}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return errors.Annotatef(err, "calling the operator of %s", app)
	}
	defer conn.Close()
	tlsConn, ok := conn.(*tls.Conn)
	if !ok {
		return errors.Errorf("%s does not speak TLS", app)
	}
	sum := sha256.Sum256(tlsConn.ConnectionState().PeerCertificates[0].Raw)
	if hex.EncodeToString(sum[:]) != fingerprint {
		return errors.Errorf("%s shows another certificate than it told the controller of", app)
	}
	return nil
}

// private checks the mode of a file that has a secret.
func private(path string, entry os.DirEntry) error {
	info, err := entry.Info()
	if err == nil && info.Mode().Perm() != 0o600 {
		err = errors.Errorf("%s has mode %v", path, info.Mode())
	}
	return err
}

// findSecrets searches all that anybody may see, or that is no secret file, for
// the operators' passwords and for user data: every file on the stage,
// every report, and the arguments and environment of every process.
func (s *stage) findSecrets(ctx context.Context) error {
	check := func(where string, data []byte) error {
		for app, c := range s.keys {
			if strings.Contains(string(data), c.password.Reveal()) {
				return errors.Errorf("the password of %s is in %s", app, where)
			}
		}
		if strings.Contains(string(data), s.userData) {
			return errors.Errorf("user data is in %s", where)
		}
		return nil
	}
	for _, data := range s.reports {
		if err := check("a report", data); err != nil {
			return err
		}
	}
	err := filepath.WalkDir(filepath.Dir(s.dir), func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		switch entry.Name() {
		case "agent.conf", "template-agent.conf", "user-data":
			return private(path, entry)
		}
		if slices.ContainsFunc(s.holders, func(id string) bool { return entry.Name() == containerFile(id) }) {
			return private(path, entry)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return check(path, data)
	})
	if err != nil {
		return err
	}
	if err := s.home.search(ctx, check); err != nil {
		return err
	}
	pids, err := s.processes()
	if err != nil {
		return err
	}
	for _, pid := range append(pids, s.agent.cmd.Process.Pid) {
		for _, name := range []string{"cmdline", "environ"} {
			path := filepath.Join("/proc", strconv.Itoa(pid), name)
			data, err := os.ReadFile(path)
			if err != nil {
				return errors.Trace(err)
			}
			if err := check(path, data); err != nil {
				return err
			}
		}
	}
	return nil
}
