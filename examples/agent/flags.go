package main

import (
	"context"
	"flag"
	"io"
	"net"
	"net/netip"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/agent/internal/outside"
	"github.com/sutler-dev/sutler/facade"
)

// Kinds of operators.
const (
	asProcesses = "processes"
	asPods      = "kubernetes"
)

// agentMain is the agent itself, or the report of one that runs.
func agentMain(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var opts agentOptions
	var cluster clusterOptions
	flags := newFlags("agent")
	flags.StringVar(&opts.model, "model", "", "")
	flags.StringVar(&opts.listen, "listen", "", "")
	flags.BoolVar(&opts.keepOperators, "keep-operators", false, "")
	flags.BoolVar(&opts.installLXD, "install-lxd", false, "")
	flags.BoolVar(&opts.kvmEmulation, "kvm-emulation", false, "")
	flags.StringVar(&cluster.kubeconfig, "kubeconfig", "", "")
	flags.StringVar(&cluster.namespace, "namespace", "", "")
	flags.StringVar(&opts.image, "image", "", "")
	flags.StringVar(&cluster.lease, "leader-lease", "", "")
	flags.StringVar(&opts.join, "join", "", "")
	flags.StringVar(&opts.page, "page", "", "")
	flags.StringVar(&opts.traces, "traces", "", "")
	operators := flags.String("operators", asProcesses, "")
	debug := flags.Bool("debug", false, "")
	showReport := flags.Bool("report", false, "")
	if err := parse(flags, args); err != nil {
		return err
	}
	if opts.model == "" {
		return errors.BadRequestf("--model DIR is missing (agent --help tells more)")
	}
	if *showReport {
		if err := onlyFlags(flags, "--report", "model", "join", "report"); err != nil {
			return err
		}
		if err := checkName(opts.join); err != nil {
			return err
		}
		return printReport(ctx, opts, stdout)
	}
	if *operators == asPods {
		opts.cluster = &cluster
	}
	if err := checkAgent(opts, *operators, flags); err != nil {
		return err
	}
	opts.logger = newLogger(stderr, *debug)
	return runAgent(ctx, opts)
}

// checkAgent finds flags that do not go together.
func checkAgent(opts agentOptions, operators string, flags *flag.FlagSet) error {
	if operators != asProcesses && operators != asPods {
		return errors.BadRequestf("--operators %q (want %s or %s)", operators, asProcesses, asPods)
	}
	if err := checkListen(opts.listen); err != nil {
		return err
	}
	if opts.page != "" {
		if err := outside.ValidateAddress(opts.page); err != nil {
			return errors.BadRequestf("--page %q (%v)", opts.page, err)
		}
	}
	if opts.cluster == nil {
		return onlyFlags(flags, "--operators "+asProcesses,
			"model", "operators", "listen", "keep-operators", "install-lxd", "kvm-emulation", "page", "traces", "debug")
	}
	switch {
	case opts.cluster.namespace == "":
		return errors.BadRequestf("--namespace is missing: the cluster's, for the model's operators")
	case (opts.join == "") != (opts.cluster.lease == ""):
		return errors.BadRequestf("--join and --leader-lease go together")
	case opts.join != "" && (opts.listen != "" || opts.image != ""):
		return errors.BadRequestf("--listen and --image are the controller's, which is joined")
	case opts.join != "" && opts.installLXD:
		return errors.BadRequestf("--install-lxd does not go with --join: an agent that joins has no containers")
	case opts.join != "" && opts.kvmEmulation:
		return errors.BadRequestf("--kvm-emulation does not go with --join: an agent that joins has no containers")
	case opts.join == "" && opts.image == "":
		return errors.BadRequestf("--image is missing: that of operators")
	}
	return checkName(opts.join)
}

// checkName wants a name that is safe as a file's, if any.
func checkName(join string) error {
	if join != "" && facade.ValidateApplicationName(join) != nil {
		return errors.BadRequestf("--join %q (want a name, as of an application)", join)
	}
	return nil
}

// checkListen wants an address that others can be told.
func checkListen(listen string) error {
	if listen == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(listen)
	if ip, ipErr := netip.ParseAddr(host); err != nil || host == "" || ipErr == nil && ip.IsUnspecified() {
		return errors.BadRequestf("--listen %q (want host:port, where the host is what operators reach)", listen)
	}
	return nil
}

// onlyFlags refuses what is set and is not allowed together with what.
func onlyFlags(flags *flag.FlagSet, what string, allowed ...string) error {
	var err error
	flags.Visit(func(f *flag.Flag) {
		for _, name := range allowed {
			if f.Name == name {
				return
			}
		}
		err = errors.BadRequestf("--%s does not go with %s", f.Name, what)
	})
	return err
}

// controllerMain is a controller alone, for agents that join it.
func controllerMain(ctx context.Context, args []string, stderr io.Writer) error {
	var opts agentOptions
	flags := newFlags("controller")
	flags.StringVar(&opts.model, "model", "", "")
	flags.StringVar(&opts.listen, "listen", "", "")
	flags.StringVar(&opts.image, "image", "", "")
	debug := flags.Bool("debug", false, "")
	if err := parse(flags, args); err != nil {
		return err
	}
	if opts.model == "" {
		return errors.BadRequestf("--model DIR is missing (agent --help tells more)")
	}
	if err := checkListen(opts.listen); err != nil {
		return err
	}
	opts.logger = newLogger(stderr, *debug)
	return runController(ctx, opts)
}

// newFlags returns a set that complains by its error only.
func newFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	return flags
}

func parse(flags *flag.FlagSet, args []string) error {
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return errors.NewBadRequest(err, "")
	case flags.NArg() > 0:
		return errors.BadRequestf("%q is not understood (agent --help tells more)", flags.Arg(0))
	}
	return nil
}
