# Everything a developer or CI runs. `make` lists it.
#
# Nothing here needs more than Go, a C compiler for the race detector, git and
# the Go module proxy: tools and test servers are built from source. Tests in a browser
# need Chromium too, see the target browser.

SHELL         := bash
.SHELLFLAGS   := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS     += --no-print-directory

# Tools are pinned by tools/go.mod; the two generators of protobuf code by go.mod,
# so that their version is the run time's.
TOOL           := go tool -modfile=tools/go.mod
CONTROLLER_GEN := $(TOOL) controller-gen
BUF            := $(TOOL) buf
GOLANGCI_LINT  := $(TOOL) golangci-lint
# Without the discovery of targets: half of the packages, and the clients of every cloud.
PROMTOOL       := go run -C tools/promql -tags remove_all_sd github.com/prometheus/prometheus/cmd/promtool

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
# The commit's own time: the same commit builds the same binary.
DATE    := $(shell git log -1 --format=%cI 2>/dev/null || echo unknown)
STAMP   := dynamic-config.rs/fleet/internal/version
# net/trace of gRPC brings html/template, and with that the linker must keep every method
# of every type: a quarter of the agent, which has no page to make with it. The hub's fleet
# page uses html/template itself (docs/adr/0017).
BUILD   := CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags grpcnotrace
LDFLAGS := -s -w -X $(STAMP).Version=$(VERSION) -X $(STAMP).Commit=$(COMMIT) -X $(STAMP).Date=$(DATE)

# What images are called, and what they are for.
IMAGE_PREFIX  ?= dynamic-config.rs/fleet
ARCHITECTURES ?= amd64 arm64

# Two packages at a time: each may run several API servers.
TEST_PACKAGES ?= ./...
TEST_FLAGS    ?= -race -shuffle=on -p 2 -timeout 30m
FUZZTIME      ?= 30s
MINUTES       ?= 30
SEED          ?=
BENCH         ?=
# KEEP=1 leaves the demo running until it is interrupted.
KEEP          ?=
# NAME of the cluster that demo-cluster adds.
NAME          ?= north

##@ General

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: tools
tools: ## Build the tools that the targets here use, ahead of their first use
	@for tool in buf controller-gen golangci-lint helm helm-docs; do \
		echo "tools: $$tool"; begin=$$SECONDS; \
		$(TOOL) -n $$tool >/dev/null; \
		echo "tools: $$tool is ready after $$((SECONDS - begin)) s"; \
	done

.PHONY: testbin
testbin: ## Build the test servers that are missing; TESTBIN="etcd kubernetes" for some
	go run ./internal/testbin/cmd/testbin $(TESTBIN)

.PHONY: clean
clean: ## Remove what was built in this folder; the caches of tools and servers stay
	rm -rf bin out

##@ Development

.PHONY: generate
generate: generate-api generate-proto generate-kustomize generate-docs ## Generate code and manifests

.PHONY: generate-api
generate-api: ## Generate deep copies and CustomResourceDefinitions from api/
	$(CONTROLLER_GEN) object paths=./api/...
	$(CONTROLLER_GEN) crd paths=./api/... output:crd:dir=deploy/crds

.PHONY: generate-proto
generate-proto: ## Generate Go code from proto/
	$(BUF) generate

.PHONY: generate-kustomize
generate-kustomize: ## Render deploy/kustomize from the charts, and document their values
	tools/kustomize.sh
	$(TOOL) helm-docs --chart-search-root=deploy/charts --template-files=./README.md.gotmpl --sort-values-order=file --log-level=error

.PHONY: generate-docs
generate-docs: ## Renew the reference of fields in docs/kinds from deploy/crds
	go run ./internal/kindpages/cmd/kindpages docs/kinds

.PHONY: generate-charts
generate-charts: ## Keep what the charts render, for the review of a change
	go test ./deploy/charts -run RenderWhatIsKept -update

.PHONY: fmt
fmt: ## Format Go and protobuf files
	$(GOLANGCI_LINT) fmt
	$(BUF) format -w

.PHONY: lint
lint: ## Run the linters
	$(GOLANGCI_LINT) run
	$(BUF) lint

.PHONY: lint-fix
lint-fix: ## Run the linters and correct what they can
	$(GOLANGCI_LINT) run --fix

.PHONY: build
build: ## Build the binaries into bin/
	$(BUILD) -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

.PHONY: binaries
binaries: ## Build static Linux binaries into out/linux-<architecture>/
	@for arch in $(ARCHITECTURES); do \
		GOOS=linux GOARCH=$$arch $(BUILD) -ldflags "$(LDFLAGS)" -o out/linux-$$arch/ ./cmd/...; \
	done

.PHONY: images
images: binaries ## Build the images into out/images, as OCI layouts and archives, without an engine
	@for command in hub spoke; do \
		go run -C tools/release ./image -name $(IMAGE_PREFIX)/$$command:$(VERSION) -command $$command \
			-binaries ../../out -out ../../out/images -version $(VERSION) -commit $(COMMIT) -date $(DATE) \
			-architectures "$(ARCHITECTURES)"; \
	done

.PHONY: release-dry
release-dry: binaries images ## Make what a release holds in out/release, and publish nothing
	tools/release.sh $(VERSION) $(COMMIT) $(DATE)

.PHONY: demo
demo: build-demo ## Run hub and spokes on real API servers and show them at work
	@exec bin/demo $(if $(KEEP),-keep)

.PHONY: demo-cluster
demo-cluster: build-demo ## Enrol one more cluster, NAME=north, beside a demo that runs with KEEP=1
	@exec bin/demo -cluster $(NAME)

# The demo is no child of `go run`, which passes no signal on: who ends make ends it all.
.PHONY: build-demo
build-demo: build
	@$(MAKE) testbin TESTBIN="etcd kubernetes"
	go build -o bin/demo ./e2e/demo

##@ Tests

.PHONY: browser
browser: ## Find or install the browser that the tests of the fleet page run in
	@tools/browser.sh

.PHONY: test
test: testbin browser build ## Run every test, on real servers, with the race detector
	go test $(TEST_FLAGS) $(TEST_PACKAGES)
	go test -C tools/release ./...
	@$(MAKE) test-alerts

.PHONY: test-alerts
test-alerts: ## Check the alerts, and play them on recorded series, with promtool
	$(PROMTOOL) check rules --lint=all --lint-fatal $(CURDIR)/deploy/alerts/*.yaml
	$(PROMTOOL) test rules $(CURDIR)/deploy/alerts/tests/*.yaml
	cd tools/promql && go vet ./... && go test -count=1 ./... # the rules are outside the module: no cache sees them

.PHONY: screenshots
screenshots: testbin browser ## Picture every kind of page into out/fleet-page, light and dark
	go test ./hub/internal/web -count=1 -run 'TestScreenshots' -screenshots $(CURDIR)/out/fleet-page

.PHONY: cover
cover: testbin browser build ## Run every test and show the coverage of each function
	@mkdir -p out
	go test $(TEST_FLAGS) -coverpkg=./... -coverprofile=out/cover.out $(TEST_PACKAGES)
	go tool cover -func=out/cover.out

.PHONY: e2e-kind
e2e-kind: build ## Play every story on kind clusters; builds engine, node and images. KEEP=1 leaves them up
	@$(MAKE) images ARCHITECTURES=$$(go env GOARCH) IMAGE_PREFIX=dynamic-config.e2e VERSION=e2e
	@$(MAKE) testbin TESTBIN="consul vault"
	tools/kind/images.sh
	@# What the run compiles is fetched here: it has no network there.
	$(TOOL) -n helm >/dev/null && go vet -tags kind ./e2e/...
	KEEP=$(KEEP) tools/kind/run.sh go test -tags kind -count=1 -v -p 1 -timeout 90m ./e2e/kind ./e2e/dockerfile

.PHONY: e2e-dockerfile
e2e-dockerfile: ## Build the Dockerfile in an engine, and compare with make images; a part of e2e-kind
	@$(MAKE) images ARCHITECTURES=$$(go env GOARCH) IMAGE_PREFIX=dynamic-config.e2e VERSION=e2e
	go vet -tags kind ./e2e/dockerfile
	tools/kind/run.sh go test -tags kind -count=1 -v -timeout 30m ./e2e/dockerfile

.PHONY: bench
bench: testbin build ## Load a real hub with BENCH="-spokes 1000 -renders 100"; the table goes to out/bench.json too
	go run ./e2e/bench $(BENCH)

.PHONY: bench-go
bench-go: testbin ## Run every Go benchmark, one package at a time
	go test -run '^$$' -bench . -benchmem -p 1 -timeout 30m $(TEST_PACKAGES)

.PHONY: soak
soak: testbin build ## Change a fleet at random for MINUTES, from SEED on, and compare it with the truth
	go run ./e2e/soak -for $(MINUTES)m $(if $(SEED),-seed $(SEED))

.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME
	@{ grep -rnoE --include='*_test.go' '^func Fuzz\w+' . || true; } | sed -E 's|/[^/]*:[0-9]+:func | |' | \
	while read -r package name; do \
		echo "fuzz: $$package $$name"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package" </dev/null || exit 1; \
	done

##@ Checks

.PHONY: verify
verify: tools verify-modules verify-generate verify-proto verify-lint ## Check that all is generated, formatted, compatible and clean
	@echo "verify: all is well"

.PHONY: verify-modules
verify-modules: ## Check that go.mod and go.sum hold what is needed and no more
	go mod tidy -diff
	cd tools && go mod tidy -diff
	cd tools/promql && go mod tidy -diff
	cd tools/release && go mod tidy -diff

# By content and not by git, so that it holds in a tree with uncommitted work too.
GENERATED = find api deploy/crds deploy/kustomize deploy/charts docs/kinds proto -type f | LC_ALL=C sort | xargs sha256sum

.PHONY: verify-generate
verify-generate: ## Check that generating again changes, adds and removes no file
	@mkdir -p out
	@$(GENERATED) >out/generated.before
	$(MAKE) generate
	@$(GENERATED) >out/generated.after
	@diff out/generated.before out/generated.after || { echo "run make generate and commit what it changes"; exit 1; }

.PHONY: verify-proto
verify-proto: ## Check format, style and compatibility of the protocol
	$(BUF) format -d --exit-code
	$(BUF) lint
	tools/buf-breaking.sh

.PHONY: verify-lint
verify-lint: ## Run the linters and check the format of Go files
	$(GOLANGCI_LINT) run
	$(GOLANGCI_LINT) fmt --diff

.PHONY: ci
ci: test verify ## Do what CI does
