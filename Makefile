# make test     every test of every module, with the race detector
# make lint     gofmt, tidiness, vet, staticcheck, golangci-lint; each module also builds alone
# make check    lint, what changed of the API since the last release, the documentation, each benchmark once
# make demo     a whole agent plays a story on a temporary model
# make testbed  builds and starts what is missing of Kubernetes; make testbed-down stops it
# make test-node  the tests that need pods that really run: in the network of the test bed's node
# make demo-kubernetes  the story with operators that are pods, on the test bed's node
# make demo-lxd  the story with containers of LXD, on an LXD of its own: as root
# make demo-kvm  the story with virtual machines, on a libvirt of its own: as root
# make bench    the benchmarks              BENCH=regexp BENCHTIME=1s COUNT=1
# make bench-compare  sutler beside others: measures, draws the charts, writes docs/BENCHMARKS.md's tables
# make fuzz     every fuzz target in turn   FUZZTIME=30s or 20000x
# make stories  the simulation, at length   STORIES=100000 SEED=1
# make ci       what CI runs
#
# Modules are found (scripts/modules), not listed here. Tools are built once into
# .bin/, at the versions in scripts/tool.

SHELL := /bin/bash -o pipefail

TESTFLAGS ?=
BENCH     ?= .
BENCHTIME ?= 1s
COUNT     ?= 1
FUZZTIME  ?= 30s
STORIES   ?= 100000
SEED      ?=
# The package of the simulation, whose tests take -stories and -seed.
SIMULATION ?= ./internal/simulation

.PHONY: test test-node lint check demo demo-kubernetes demo-lxd demo-kvm testbed testbed-down bench bench-compare fuzz stories ci clean

test:
	@set -e; for module in $$(scripts/modules); do \
		echo "test $$module"; \
		(cd $$module && go test -race -timeout 40m $(TESTFLAGS) ./...); \
	done

test-node:
	@cd operator/kubernetes && SUTLER_REQUIRE=kubernetes-node ../../testbed/in-node \
		go test -race -timeout 40m -run '^TestReal' $(TESTFLAGS) ./...
	@cd examples && SUTLER_REQUIRE=kubernetes-node go test -race -timeout 40m -run '^TestCommandsRun$$' $(TESTFLAGS) ./docs

lint:
	@scripts/lint

# The documentation's tests follow every link, run every command and compile every piece of code.
check: lint
	@scripts/apidiff-test
	@scripts/apidiff
	@cd examples && go test -race -timeout 40m $(TESTFLAGS) ./docs/...
	@cd bench && go test -run '^$$' -bench . -benchtime 1x .

demo:
	@mkdir -p .bin
	@cd examples && go build -o ../.bin/agent ./agent
	@.bin/agent demo

demo-kubernetes:
	@examples/agent/demo-kubernetes

demo-lxd:
	@examples/agent/demo-lxd

demo-kvm:
	@examples/agent/demo-kvm

testbed:
	@testbed/up

testbed-down:
	@testbed/down

bench:
	@set -e; for module in $$(scripts/modules); do \
		(cd $$module && go test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem -count $(COUNT) ./...); \
	done

bench-compare:
	@cd bench && go run ./cmd/compare

fuzz:
	@scripts/fuzz $(FUZZTIME)

stories:
	@go test -timeout 0 -count 1 -v -run Stor $(SIMULATION) -args -stories $(STORIES) $(if $(SEED),-seed $(SEED))

ci:
	@.ci/run

clean:
	rm -rf .bin
