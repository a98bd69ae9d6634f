# What a contributor runs; CI runs the same targets. A target is listed by
# `make help` if a comment with two hashes follows it.

# Modules stand alone: a go.work left somewhere above must not join them.
export GOWORK := off

# Every module of the tree, the root first.
MODULES := $(sort $(patsubst %/,%,$(dir $(shell find . -name go.mod \
	-not -path '*/.*/*' -not -path '*/testdata/*'))))

# The race detector needs a C compiler; the go command knows whether it can do.
RACE = $(shell go list -race errors >/dev/null 2>&1 && echo -race)

# $(call each,COMMAND) runs COMMAND in every module, goes on after a failure,
# and fails in the end.
define each
@failed=; for module in $(MODULES); do \
	echo "# $$module: $(1)"; \
	(cd $$module && $(1)) || failed="$$failed $$module"; \
done; \
test -z "$$failed" || { echo "failed in:$$failed" >&2; exit 1; }
endef

.DEFAULT_GOAL := all
.NOTPARALLEL:

.PHONY: all
all: vet test lint ## vet, test and lint: what to run before a commit (the default)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Tests.

.PHONY: test
test: ## test every module, shuffled, under the race detector where a C compiler is found
	@echo "race detector: $(if $(RACE),on,off: no C compiler found)"
	$(call each,go test $(RACE) -shuffle=on ./...)

.PHONY: test-386
test-386: ## vet and test the core for a 32-bit machine
	GOARCH=386 CGO_ENABLED=0 go vet .
	GOARCH=386 CGO_ENABLED=0 go test -shuffle=on .

# Allocation budgets hold only without the race detector, so this run checks them too.
.PHONY: cover
cover: ## statement coverage of the core (97 % at least) and the functions that lack some
	go test -shuffle=on -coverprofile=cover.out .
	@go tool cover -func=cover.out | awk '\
		$$1 == "total:" || $$NF != "100.0%" { print } \
		$$1 == "total:" { low = $$NF + 0 < 97 } \
		END { if (low) print "coverage is below 97 %"; exit low }'

.PHONY: fuzz
FUZZTIME ?= 10s
fuzz: ## fuzz every target, FUZZTIME=10s each
	@scripts/fuzz.sh $(FUZZTIME)

.PHONY: bench
BENCH ?= .
COUNT ?= 1
bench: ## run the benchmarks of the core: BENCH=regexp COUNT=times
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) .

.PHONY: bench-peers
ROUNDS ?= 10
PEERS ?= .
bench-peers: ## the peers side by side, in turns: medians, ratios, targets: ROUNDS=10 PEERS=pattern (some 15 minutes)
	cd bench && go run ./cmd/ratios -rounds $(ROUNDS) -filter '$(PEERS)'

.PHONY: bench-self
bench-self: ## the targets that compare seawall with itself, measured beside each other (a minute)
	cd bench && go run ./cmd/ratios -rounds 30 -filter '^Benchmark(Closed|Failures|Call|Window)$$/impl=seawall$$'

.PHONY: cases
cases: ## known faults of this kind of library, each with the tests that rule it out here
	@go run ./internal/cases

# Proof: proof/README.md says what each of these shows.

.PHONY: proof
proof: ## the searches of proof/ without the race detector, and the figures they reached
	@cd proof && status=0; go test -count=1 -v . >proof.out 2>&1 || status=$$?; \
		test $$status = 0 || cat proof.out; \
		grep -aE '^ *(proof:|--- FAIL|FAIL|ok |panic:)' proof.out; exit $$status

.PHONY: faults
faults: ## break seawall on purpose: fault x method, each found by two methods at least
	cd proof && go run ./faults

.PHONY: spec
spec: ## the protocol in the model checker spin (Debian: spin, gcc)
	sh proof/spec/run.sh

.PHONY: mutate
mutate: .tools/gremlins ## mutants of the core: statements and conditions, and gremlins (half an hour on two cores)
	cd proof && go run ./mutate -second
	.tools/gremlins unleash --timeout-coefficient 6 --workers 2 --threshold-efficacy 95 \
		--exclude-files '^(proof|bench|contrib|examples|seawallhttp|seawallpage|internal|scripts)/' \
		--exclude-files '$(UNGREMLINED)' .

# What gremlins takes an hour more for, and ./mutate sees more of or need not see.
UNGREMLINED := ^(call|classify|clock|counts|edge|errors|events|generation|group|logger|options|policy|probes|slots|slow|snapshot|timeout)\.go$$

.PHONY: soak
SOAK ?= 10m
soak: ## random operations of 64 goroutines under the race detector: SOAK=10m
	cd proof && SEAWALL_SOAK=$(SOAK) go test -race -count=1 -timeout 24h -v -run TestSoak .

.PHONY: release-check
release-check: ## before a tag: the searches at length, and the nested modules as their users get them (hours)
	cd proof && SEAWALL_PROOF=release go test -count=1 -timeout 6h -v .
	$(MAKE) faults spec soak mutate
	$(MAKE) fuzz FUZZTIME=10m
	scripts/release-check.sh

# Checks.

.PHONY: vet
vet: ## go vet and go fix in every module
	$(call each,go vet ./...)
	$(call each,go fix -diff ./...)

.PHONY: lint
lint: .tools/golangci-lint ## golangci-lint with gofumpt in every module
	$(call each,$(CURDIR)/.tools/golangci-lint run --config $(CURDIR)/.golangci.yml ./...)

.PHONY: fmt
fmt: .tools/golangci-lint ## format every file with gofumpt
	.tools/golangci-lint fmt

.PHONY: tidy
tidy: ## check that every go.mod and go.sum is tidy
	$(call each,go mod tidy -diff)

# The model checker is one of Debian's packages; where it isn't installed the rest is checked.
SPEC = $(if $(shell command -v spin 2>/dev/null && command -v gcc 2>/dev/null),spec)

.PHONY: checks
checks: vet lint tidy test-386 cover cases proof fuzz $(SPEC) ## all but the tests of make ci: linter, searches, fuzzing, model checker (some five minutes)

.PHONY: race
race:
	@test -n "$(RACE)" || { echo "make ci needs the race detector: install a C compiler" >&2; exit 1; }

.PHONY: ci
ci: race test checks ## everything that CI checks

# Tools, pinned here and kept out of go.mod. golangci-lint brings its own gofumpt.

golangci-lint := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
benchstat     := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
apidiff       := golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4
gremlins      := github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0

.PHONY: tools
tools: .tools/golangci-lint .tools/benchstat .tools/apidiff .tools/gremlins ## install the tools into .tools (the linter alone takes minutes)

# The script looks at the version, which a file's age does not tell.
.tools/%: FORCE
	@scripts/install-tool.sh $($*)

.PHONY: FORCE
FORCE:
