# make demo: the main job on this machine, no Docker and no key.    make test: everything that CI asks.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help demo flywheel test lint pytest bench install-dev clean

VENV := .venv
BIN := $(VENV)/bin
# --allow-unsafe-local: where namespaces are forbidden the demo still runs, for all of its commands are ours.
DEMO := run --suite hello --agent oracle --backend local --allow-unsafe-local --jobs-dir jobs
PYTEST_ARGS ?=

help:
	@echo "make demo   install into $(VENV) and run the bundled suite in local sandboxes"
	echo "make flywheel  a small model learns a shell task in local sandboxes: minutes, no GPU (installs torch)"
	echo "make test   lint, types and tests (CI=true: slow ones too, and Docker is required)"
	echo "make lint   ruff and mypy"
	echo "make bench  the measured promises"
	echo "make clean  remove $(VENV), caches and build output; jobs/ stays"

demo: $(VENV)/.installed
	@$(BIN)/harness $(DEMO) --name "demo-$$(date +%Y%m%d-%H%M%S)"

flywheel: $(VENV)/.installed-flywheel
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/flywheel/run.sh jobs full

test: lint pytest

pytest: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest -q $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev
	@$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy

bench: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest -q -s --run-slow --timeout 600 tests/benchmarks/bench_*.py $(PYTEST_ARGS)

clean:
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

install-dev: $(VENV)/.installed-dev

# The stamps make a second run immediate; a changed pyproject.toml installs again.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "installing into $(VENV)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed-flywheel: pyproject.toml | $(BIN)/python
	@echo "installing into $(VENV), with the trainer for the CPU"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu ||
		echo "no CPU build of torch could be had: installing the usual one"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[train,proxy,llm,evals,report]'
	touch $(VENV)/.installed $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo "installing into $(VENV), with the development tools"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[dev]'
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true  # as pip does, but on all cores; some are templates
	touch $(VENV)/.installed $@

$(BIN)/python:
	@for python in $${PYTHON:-python3 python3.13 python3.12 python3.11 /usr/bin/python3}; do
		if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
			"$$python" -m venv $(VENV)
			exit 0
		fi
	done
	echo "error: no Python 3.11 or newer with venv here; install one (Debian: apt-get install python3-venv) or name it: make PYTHON=/path/to/python3" >&2
	exit 2
