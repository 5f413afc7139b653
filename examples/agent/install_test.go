package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestInstallCopiesTheRunningProgram(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(dest, []byte("an older one"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"install", dest}, &stdout, &stderr); code != 0 || stdout.Len()+stderr.Len() > 0 {
		t.Fatalf("got %d, %q, %q", code, stdout.String(), stderr.String())
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(dest); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy has %d bytes, want %d (%v)", len(got), len(want), err)
	}
	if info, err := os.Stat(dest); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("got mode %v, %v; want 0755", info.Mode(), err)
	}
	leavesNothingBeside(t, dest)
}

func TestInstallThatFailsLeavesWhatWasThere(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "agent")
	if err := os.MkdirAll(filepath.Join(dest, "child"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, src := range []string{"/proc/self/exe", filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		if err := copyProgram(src, dest); err == nil {
			t.Errorf("%s: want an error", src)
		}
	}
	leavesNothingBeside(t, dest)
}

func leavesNothingBeside(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v; want nothing beside %s", entries, err, filepath.Base(path))
	}
}
