# make test   every test of every module, with the race detector
# make lint   gofmt, vet, staticcheck, golangci-lint, tidiness, GOWORK=off builds
# make ci     what CI runs: lint and test
MODULES := .

.PHONY: test lint ci
test:
	@set -e; for m in $(MODULES); do (cd $$m && go test -race -timeout 20m ./...); done

lint:
	@test -z "$$(gofmt -l . | tee /dev/stderr)"
	@set -e; for m in $(MODULES); do (cd $$m && go vet ./... && GOWORK=off go build ./...); done

ci: lint test
