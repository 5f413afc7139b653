// Command agent is a whole host agent in one program: an example of how sutler's
// operator provisioner and container set-up are embedded, and something to play
// with.
//
//	agent --model DIR             keep operators and containers for a model
//	agent --model DIR --report    print what the agent on that model is doing
//	agent host plan --model DIR   print what is to be done to this machine for LXD and KVM
//	agent demo                    play a story on a temporary model
//
// The controller, which real agents reach over a network, is a directory that a
// person edits; operators are processes of this machine or, with --operators
// kubernetes, pods of a cluster. Boxes, the containers that can be had anywhere, are
// processes; where LXD or libvirt answer, their containers and virtual machines can be
// had, too. README.md beside this file tells how to use it. To see how the parts are wired together begin with manifolds.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/examples/agent/internal/box"
	"github.com/sutler-dev/sutler/examples/agent/internal/demo"
	"github.com/sutler-dev/sutler/examples/agent/internal/operatorcmd"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	// exitUsage is for what whoever started the program can mend: flags and
	// the model's settings.
	exitUsage = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program. Whatever goes wrong is one line on stderr.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := dispatch(ctx, args, stdout, stderr)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	}
	fmt.Fprintf(stderr, "agent: %v\n", err)
	if errors.Is(err, errors.BadRequest) {
		return exitUsage
	}
	return exitFailure
}

const usage = `usage: agent --model DIR [--listen ADDR] [--keep-operators] [--install-lxd]
             [--kvm-emulation] [--page ADDR] [--traces FILE] [--debug]
       agent --model DIR --operators kubernetes --namespace NS --image IMAGE
             [--kubeconfig FILE] [--listen ADDR] [--install-lxd]
             [--kvm-emulation] [--page ADDR] [--traces FILE] [--debug]
       agent --model DIR --report
       agent host plan --model DIR [--install-lxd] [--kvm-emulation]
       agent host undo --model DIR
       agent demo [--operators kubernetes | --containers lxd | --containers kvm]

  --model DIR        the directory of the model; see README.md for its files
  --listen ADDR      where operators log in, host:port: the host is what they are
                     told, port 0 one that is free and kept (127.0.0.1:0)
  --keep-operators   leave operators and boxes running when the agent is stopped
  --install-lxd      have LXD installed when somebody asks for the first of its
                     containers; otherwise they can be had where it answers
  --kvm-emulation    have software run virtual machines where the processor cannot,
                     slowly; they can be had where libvirt answers
  --page ADDR        show a page on a loopback address, host:port, too, for a browser;
                     it, metrics and reports are always had on a socket in DIR/.agent
  --traces FILE      add a span for each look at an application or container, as JSON
  --debug            log everything
  --report           print the report of the agent that runs on the model

  --operators kubernetes
                     have operators as pods, in place of processes
  --namespace NS     where in the cluster; it has to be there
  --image IMAGE      the image of operators; it has this program as /agent
  --kubeconfig FILE  how to reach the cluster; by default what kubectl takes

  host plan          print what is to be done to this machine for containers of LXD
                     and virtual machines
  host undo          take back what agents on the model did for them

Several agents for one model, of which one leads, share a controller:

       agent controller --model DIR [--listen ADDR] [--image IMAGE] [--debug]
       agent --model DIR --join NAME --leader-lease LEASE --operators kubernetes
             --namespace NS [--kubeconfig FILE] [--page ADDR] [--traces FILE]
             [--debug]
       agent --model DIR --join NAME --report

The agent runs until SIGTERM or Ctrl-C. Exit code 2 means wrong flags or a model
that cannot be used, 1 any other failure.
`

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "demo":
			return demoMain(ctx, args[1:], stdout)
		case "operator":
			return operatorMain(ctx, args[1:], stderr)
		case "controller":
			return controllerMain(ctx, args[1:], stderr)
		case "box":
			return boxMain(ctx, args[1:], stdout, stderr)
		case "host":
			return hostMain(ctx, args[1:], stdout, stderr)
		case "watch-network":
			return watchMain(ctx, args[1:], stderr)
		case "install":
			return installMain(args[1:])
		}
	}
	return agentMain(ctx, args, stdout, stderr)
}

// podIPVariable is what an operator finds its pod's address in.
const podIPVariable = "JUJU_OPERATOR_POD_IP"

// operatorMain is what the agent starts for every application.
func operatorMain(ctx context.Context, args []string, stderr io.Writer) error {
	config := operatorcmd.Config{
		// In a pod, what it listens on says nothing of where it is.
		Host:   os.Getenv(podIPVariable),
		Clock:  clock.WallClock,
		Logger: newLogger(stderr, false),
	}
	flags := newFlags("operator")
	flags.StringVar(&config.Dir, "dir", "", "")
	flags.StringVar(&config.Application, "application", "", "")
	flags.StringVar(&config.Listen, "listen", "", "")
	if err := parse(flags, args); err != nil {
		return err
	}
	if err := config.Validate(); err != nil {
		return errors.NewBadRequest(err, "operator")
	}
	return errors.Annotate(operatorcmd.Run(ctx, config), "operator")
}

// boxMain is what the agent starts for every container of the type box.
func boxMain(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	// An agent that was killed meanwhile does not hear that the box is ready,
	// which is no reason to end.
	signal.Ignore(syscall.SIGPIPE)
	config := box.RunConfig{Ready: stdout, Logger: newLogger(stderr, false)}
	flags := newFlags("box")
	flags.StringVar(&config.Dir, "dir", "", "")
	if err := parse(flags, args); err != nil {
		return err
	}
	if err := config.Validate(); err != nil {
		return errors.NewBadRequest(err, "box")
	}
	return errors.Annotate(box.Run(ctx, config), "box")
}

func demoMain(ctx context.Context, args []string, stdout io.Writer) error {
	var cluster demo.Cluster
	flags := newFlags("demo")
	flags.StringVar(&cluster.Kubeconfig, "kubeconfig", "", "")
	flags.StringVar(&cluster.Image, "image", "", "")
	flags.StringVar(&cluster.Listen, "listen", "", "")
	operators := flags.String("operators", asProcesses, "")
	containers := flags.String("containers", "", "")
	if err := parse(flags, args); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return errors.Trace(err)
	}
	config := demo.Config{Program: program, Out: stdout}
	switch {
	case *containers == string(containersetup.LXD):
		if err := onlyFlags(flags, "--containers lxd", "containers"); err != nil {
			return err
		}
		config.LXD = true
	case *containers == string(containersetup.KVM):
		if err := onlyFlags(flags, "--containers kvm", "containers", "image"); err != nil {
			return err
		}
		if cluster.Image == "" {
			return errors.BadRequestf("--image is missing: that of the disk of virtual machines, from testbed/libvirt-guest")
		}
		config.Disk = cluster.Image
	case *containers != "":
		return errors.BadRequestf("--containers %q (want lxd or kvm, or nothing for boxes)", *containers)
	case *operators == asProcesses:
		if err := onlyFlags(flags, "--operators "+asProcesses, "operators"); err != nil {
			return err
		}
	case *operators != asPods:
		return errors.BadRequestf("--operators %q (want %s or %s)", *operators, asProcesses, asPods)
	case cluster.Image == "":
		return errors.BadRequestf("--image is missing: that of operators")
	default:
		config.Cluster = &cluster
	}
	// Also when nobody reads any more, or the terminal is closed: there are
	// processes to be cleaned up.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGPIPE, syscall.SIGHUP)
	defer stop()
	return demo.Run(ctx, config)
}

func newLogger(w io.Writer, debug bool) *slog.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}
