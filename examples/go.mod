module github.com/sutler-dev/sutler/examples

go 1.26.0

require (
	github.com/fsnotify/fsnotify v1.10.1
	github.com/juju/clock v1.1.1
	github.com/juju/errors v1.0.0
	github.com/juju/retry v1.0.1
	github.com/juju/worker/v3 v3.5.0
	github.com/sutler-dev/sutler v0.0.0
	golang.org/x/crypto v0.59.0
	golang.org/x/term v0.48.0
	gopkg.in/yaml.v3 v3.0.1
)

require (
	github.com/juju/collections v0.0.0-20220203020748-febd7cad8a7a // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	gopkg.in/tomb.v2 v2.0.0-20161208151619-d5d1b5820637 // indirect
)

replace github.com/sutler-dev/sutler => ../
