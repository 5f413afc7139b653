// Command testbed starts and stops Kubernetes control planes for tests, and is
// their fake node. The scripts in the repository's folder testbed call it.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/juju/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/fakenode"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/internal/controlplane"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/ociimage"
)

const usage = `usage:
  testbed up --state DIR --bin DIR [--address IP] [--port N] [--fake-node=false]
      starts a control plane, unless it runs, and prints its kubeconfig
  testbed down --state DIR
      stops it and removes its folder
  testbed fakenode --kubeconfig FILE
      is the fake node, until it is interrupted
  testbed image --name REGISTRY/NAME:TAG --file PATH=FILE... --output FILE
          [--entrypoint PATH] [--user UID]
      writes a container image with the files, as an archive in the OCI layout
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "testbed:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called.
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return errors.NotValidf("no command")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage) }
	config := controlplane.Config{Detached: true}
	fake := true
	kubeconfig, output := "", ""
	image := ociimage.Image{Files: make(map[string]string)}
	var do func() error
	switch args[0] {
	case "up":
		flags.StringVar(&config.Dir, "state", "", "")
		flags.StringVar(&config.Bin, "bin", "", "")
		flags.StringVar(&config.Address, "address", "", "")
		flags.IntVar(&config.Port, "port", 0, "")
		flags.BoolVar(&fake, "fake-node", true, "")
		do = func() error { return up(ctx, config, fake, stdout) }
	case "down":
		flags.StringVar(&config.Dir, "state", "", "")
		do = func() error { return down(config.Dir) }
	case "fakenode":
		flags.StringVar(&kubeconfig, "kubeconfig", "", "")
		do = func() error { return runFakeNode(ctx, kubeconfig, stderr) }
	case "image":
		flags.StringVar(&image.Name, "name", "", "")
		flags.StringVar(&image.User, "user", "", "")
		flags.StringVar(&output, "output", "", "")
		flags.Func("entrypoint", "", func(path string) error {
			image.Entrypoint = []string{path}
			return nil
		})
		flags.Func("file", "", func(pair string) error {
			path, file, ok := strings.Cut(pair, "=")
			image.Files[path] = file
			if !ok {
				return errors.NotValidf("%q (want PATH=FILE)", pair)
			}
			return nil
		})
		do = func() error { return writeImage(output, image) }
	default:
		fmt.Fprint(stderr, usage)
		return errors.NotValidf("command %q", args[0])
	}
	if err := flags.Parse(args[1:]); err != nil {
		return errors.Trace(err)
	}
	if flags.NArg() > 0 {
		return errors.NotValidf("argument %q", flags.Arg(0))
	}
	return do()
}

// up starts a control plane unless it runs.
func up(ctx context.Context, config controlplane.Config, fake bool, stdout io.Writer) error {
	unlock, err := controlplane.Lock(config.Dir)
	if err != nil {
		return errors.Trace(err)
	}
	defer unlock()
	state, err := controlplane.Open(config.Dir)
	if errors.Is(err, errors.NotFound) {
		if fake {
			// This program, as it is now.
			if config.Tool, err = os.Executable(); err != nil {
				return errors.Trace(err)
			}
		}
		var started *controlplane.ControlPlane
		if started, err = controlplane.Start(ctx, config); err == nil {
			state = started.State
		}
	}
	if err != nil {
		return errors.Trace(err)
	}
	fmt.Fprintln(stdout, "KUBECONFIG="+state.Kubeconfig("admin"))
	return nil
}

func down(dir string) error {
	unlock, err := controlplane.Lock(dir)
	if err != nil {
		return errors.Trace(err)
	}
	defer unlock()
	return errors.Trace(controlplane.Stop(dir))
}

func writeImage(output string, image ociimage.Image) error {
	var archive bytes.Buffer
	if err := ociimage.Write(&archive, image); err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(os.WriteFile(output, archive.Bytes(), 0o600))
}

func runFakeNode(ctx context.Context, kubeconfig string, stderr io.Writer) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return errors.Annotate(err, "reading the kubeconfig")
	}
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return errors.Trace(err)
	}
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	return fakenode.Run(ctx, fakenode.Config{Client: client, Logger: logger})
}
