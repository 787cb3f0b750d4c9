# Everything happens in a virtual environment of the project's own, .venv.
# make demo | make test | make check | make clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check lint types bench clean

demo: $(VENV)/all
	$(BIN)/peerclust demo

test: $(VENV)/dev
	$(BIN)/python -m pytest -q

check: lint types test

lint: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/dev
	$(BIN)/mypy

bench: $(VENV)/all
	$(BIN)/python -m benchmarks core
	$(BIN)/python -m benchmarks rounds
	$(BIN)/python -m benchmarks outliers
	$(BIN)/python -m benchmarks solvers
	$(BIN)/python -m benchmarks choices
	$(BIN)/python -m benchmarks peers
	$(BIN)/python -m benchmarks mpi
	$(BIN)/python -m tests.chaos fuzz
	$(BIN)/python -m tests.chaos schedules

# A marker file a set of extras: installed again only when pyproject.toml changes.
$(VENV)/%: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("peerclust needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV); this takes a minute."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
