# Short names for the commands of README.md; each works without make, and `make help` lists them.

PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
PYTEST := $(PY) -m pytest
# Tests that decide need cores, drills mostly wait.
WORKERS ?= 2
DRILLS ?= 2
TOOLS ?=
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo test e2e soak check format lint types imports docs reference bench bench-llm clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/.have-dev ## install everything a contributor needs into .venv

demo: $(VENV)/.have-demo ## run two whole eviction drills against the stand-in agent and show their verdicts
	$(VENV)/bin/drillmaster demo

test: $(VENV)/.have-test ## run the hermetic tests: no sockets, no processes of the product
	$(PYTEST) -m "not e2e" -n $(WORKERS)

e2e: $(VENV)/.have-e2e ## run the tests over real sockets and processes, on loopback
	$(PYTEST) -m e2e -n $(DRILLS) --dist worksteal

soak: $(VENV)/.have-e2e ## play the drills that kill and pause 1,000 times instead of 50
	DRILLMASTER_SOAK=1 $(PYTEST) -m e2e -k drill tests/e2e/test_lease_drill.py tests/e2e/test_webhook_drill.py

check: format lint types imports test docs ## all that must hold before a commit

format: $(VENV)/.have-dev ## complain about formatting (to mend it: .venv/bin/ruff format)
	$(VENV)/bin/ruff format --check

lint: $(VENV)/.have-dev ## ruff's rules
	$(VENV)/bin/ruff check

types: $(VENV)/.have-dev ## mypy, strict
	$(VENV)/bin/mypy

imports: $(VENV)/.have-test ## a room imports from lower tiers only
	$(PY) -m tools.imports

docs: $(VENV)/.have-test ## links, commands and generated pages of docs/ hold
	$(PY) -m tools.reference --check
	$(PY) -m tools.pages

reference: $(VENV)/.have-test ## write docs/reference anew from the code
	$(PY) -m tools.reference

bench: $(VENV)/.have-bench ## measure what users wait for, beside peers that are installed
	$(PY) -m bench

# guidellm and aiperf are large, and not installed by anything here: make bench-llm TOOLS=GUIDELLM/bin:AIPERF/bin
bench-llm: $(VENV)/.have-e2e ## measure what a token costs, beside openai and, in the folders TOOLS, guidellm and aiperf
	$(PY) bench/llm.py --tools '$(TOOLS)'

clean: ## remove .venv, caches and builds; runs/ is evidence and stays
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per set of requirements, inside the environment, so that it goes when the environment goes.
$(VENV)/.have-demo: pyproject.toml | $(PY)
	$(PIP) install -q -e '.[demo]'
	@touch $@

$(VENV)/.have-test: pyproject.toml | $(PY)
	$(PIP) install -q -e '.[test]'
	@touch $(VENV)/.have-demo $@

$(VENV)/.have-e2e: pyproject.toml | $(PY)
	$(PIP) install -q -e '.[e2e]'
	@touch $(VENV)/.have-demo $(VENV)/.have-test $@

$(VENV)/.have-bench: pyproject.toml | $(PY)
	$(PIP) install -q -e '.[bench]'
	@touch $(VENV)/.have-demo $(VENV)/.have-test $(VENV)/.have-e2e $@

$(VENV)/.have-dev: pyproject.toml | $(PY)
	$(PIP) install -q -e '.[dev]'
	@touch $(VENV)/.have-demo $(VENV)/.have-test $@

# Debian ships the module without its `ensurepip`; the pip that is there can fill such an environment from outside.
$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'drillmaster needs Python 3.11 or newer; name one: make PYTHON=python3.12 ...' >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || \
	  { $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip -q --python $(PY) install pip; } || \
	  { rm -rf $(VENV); echo 'no virtual environment can be made; on Debian: apt-get install python3-venv' >&2; exit 2; }
