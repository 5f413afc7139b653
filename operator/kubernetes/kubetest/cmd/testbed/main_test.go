package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"
)

func TestUnknownArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"sideways"}, {"down", "--state", t.TempDir(), "now"}, {"up", "--bin", "/bin"}, {"fakenode", "--kubeconfig", "/nonexistent"}} {
		var stderr bytes.Buffer
		if err := run(t.Context(), args, io.Discard, &stderr); err == nil {
			t.Errorf("%q is no error", args)
		}
	}
	if err := run(t.Context(), []string{"down", "--force"}, io.Discard, io.Discard); err == nil {
		t.Error("an unknown flag is no error")
	}
}

func TestDownOfNothingIsNoError(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), []string{"down", "--state", filepath.Join(t.TempDir(), "k8s")}, io.Discard, io.Discard); err != nil {
		t.Error(err)
	}
}

func TestImageIsWritten(t *testing.T) {
	t.Parallel()
	output := filepath.Join(t.TempDir(), "image.tar")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"image", "--name", "localhost/x:1", "--file", "/x=" + self, "--entrypoint", "/x", "--user", "1", "--output", output}
	if err := run(t.Context(), args, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(output); err != nil || info.Size() < 1<<20 {
		t.Errorf("the image is %v (%v)", info, err)
	}
	err = run(t.Context(), []string{"image", "--name", "localhost/x:1", "--file", "/x", "--output", output}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "PATH=FILE") {
		t.Errorf("a file without a path: %v", err)
	}
	if err := run(t.Context(), []string{"image", "--name", "x", "--output", output}, io.Discard, io.Discard); !errors.Is(err, errors.NotValid) {
		t.Errorf("an impossible image: %v", err)
	}
}
