# Everything happens in a virtual environment of the project's own, .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# Tests of these kinds are slow. Of each kind one short test is also marked smoke.
SLOW := peers or mpi or chaos or paper or slow
FAST := not ($(SLOW)) or smoke
PYTEST := $(BIN)/python -m pytest -q
# The kernels are compiled once, before the workers of pytest would each compile them.
WARM_UP := $(BIN)/python -m tests.warm_up

BENCHMARKS := core rounds outliers solvers choices peers mpi call_path

.DEFAULT_GOAL := help
.PHONY: help demo test test-rest test-all test-lowest check lint types golden bench lock dist hooks clean

help:  ## List the targets
	@echo "make TARGET [PYTHON=python3.x] [ARGS=...]"
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/all  ## Install the package as a user does, run `peerclust demo`, and compile the kernels
	$(BIN)/peerclust demo
	@echo "Now the kernels are compiled, so that no later run has to wait; Ctrl-C does no harm."
	$(BIN)/peerclust warm-up

test: $(VENV)/dev  ## Run the fast tests and one smoke test of each slow kind
	$(WARM_UP)
	$(PYTEST) -m "$(FAST)" $(ARGS)

test-rest: $(VENV)/dev  ## Run the tests that `make test` leaves out
	$(WARM_UP)
	$(PYTEST) -m "not ($(FAST))" $(ARGS)

test-all: $(VENV)/dev  ## Run every test
	$(WARM_UP)
	$(PYTEST) $(ARGS)

test-lowest:  ## Run the fast tests with the oldest versions that pyproject.toml allows
	$(MAKE) test VENV=.venv-lowest ARGS="-W default $(ARGS)"  # old versions warn of newer ones

check: lint types test  ## Run lint, types and the fast tests

lint: $(VENV)/dev  ## Check format and style (ruff)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/dev  ## Check types (mypy --strict)
	$(BIN)/mypy

golden: $(VENV)/dev  ## Compare results with the recorded ones, to the last bit
	$(BIN)/python tests/golden.py compare $(ARGS)

bench: $(VENV)/dev  ## Run every benchmark; one alone: python -m benchmarks NAME
	set -e; for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks $$name $(ARGS); done

# The lock leaves out the package itself, which is installed from the checkout; pip-compile warns of that.
lock: .venv-lock/done  ## Resolve requirements-dev.txt again; ARGS=--upgrade for newer versions
	CUSTOM_COMPILE_COMMAND="make lock" .venv-lock/bin/pip-compile --quiet --extra dev \
	    --generate-hashes --no-emit-index-url --no-emit-options --strip-extras \
	    --unsafe-package peerclust --output-file requirements-dev.txt $(ARGS) pyproject.toml
	sed -i '/^# WARNING: /,$$d' requirements-dev.txt

dist: $(VENV)/dev  ## Build wheel and sdist of the last commit twice, compare them, run the demo from the wheel
	.ci/dist $(BIN)/python

hooks: $(VENV)/dev  ## Run lint and types before each commit
	$(BIN)/pre-commit install

clean:  ## Remove the environments and all that was built
	rm -rf .venv .venv-lowest .venv-lock build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# A file in an environment says what was installed into it, and when.
.venv/bin/python .venv-lowest/bin/python .venv-lock/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("peerclust needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(@D)/..
	@echo "Installing into $(@D:/bin=); this takes a minute."

# By the ranges of pyproject.toml, as a user's pip does, and without the tools of developers.
.venv/all: pyproject.toml | .venv/bin/python
	$(PIP) install -e '.[all]'
	touch $@

# The versions of the lock file, which also has what builds the package.
.venv/dev: requirements-dev.txt pyproject.toml | .venv/bin/python
	$(PIP) install --require-hashes -r requirements-dev.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	touch .venv/all $@

# "numpy>=2.0" in pyproject.toml becomes "numpy==2.0".
.venv-lowest/dev: pyproject.toml | .venv-lowest/bin/python
	$(BIN)/python .ci/lowest.py > .venv-lowest/constraints.txt
	$(PIP) install --constraint .venv-lowest/constraints.txt -e '.[dev]'
	touch $@

.venv-lock/done: | .venv-lock/bin/python
	.venv-lock/bin/python -m pip --quiet --disable-pip-version-check install 'pip-tools>=7.5'
	touch $@
