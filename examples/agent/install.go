package main

import (
	"io"
	"os"
	"path/filepath"

	"github.com/juju/errors"
)

// installMain copies this program to a path: agent install DEST. It is what a
// pod's init container runs, from an image that has nothing but this program.
func installMain(args []string) error {
	flags := newFlags("install")
	if err := flags.Parse(args); err != nil {
		return parse(flags, args)
	}
	if flags.NArg() != 1 || flags.Arg(0) == "" {
		return errors.BadRequestf("install wants the path to copy this program to")
	}
	program, err := os.Executable()
	if err != nil {
		return errors.Trace(err)
	}
	return errors.Annotate(copyProgram(program, flags.Arg(0)), "install")
}

// copyProgram replaces dest by a copy of the file at src that everybody may run.
// Whoever starts dest meanwhile gets the old one or the new one.
func copyProgram(src, dest string) (err error) {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(dest), "."+filepath.Base(dest)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = out.Close()
			_ = os.Remove(out.Name())
		}
	}()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	if err := out.Chmod(0o755); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(out.Name(), dest)
}
