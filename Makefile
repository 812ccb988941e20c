# `make demo` and `make test` are all a newcomer needs; both set up .venv first, once.
PYTHON ?= python3
PIP_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
SOURCES := graph nodes tools knowledge harness
# pip would spend a minute on the bytecode of modules that nobody imports. Whoever imports one first compiles it; what
# the judge's children import, which write none, is compiled by WARM.
INSTALL = $(BIN)/python -m pip install --disable-pip-version-check -q --no-compile $(PIP_ARGS) -c constraints.txt
WARM = $(BIN)/python -c 'import graph.cli.main, harness.trusted.jobs.server, torch._inductor.compile_fx, tvm_ffi'
export PYTHONDONTWRITEBYTECODE :=

# Files with tests that run by themselves: no others are collected for them.
ALONE = $(shell grep -rl --include='test_*.py' 'mark\.alone' tests)

.PHONY: demo serve test test-all goldens check bench fuzz gpu-check recordings format clean

demo: .make/run
	$(BIN)/cutegen optimize examples/mean_field.py

# For Studio, langgraph_sdk and MCP: docs/server.md. Nothing is sent to anybody about it.
HOST ?= 127.0.0.1
PORT ?= 2024
JOBS ?= 10
serve: export LANGGRAPH_CLI_NO_ANALYTICS := 1
serve: export LANGGRAPH_NO_VERSION_CHECK := true
serve: .make/test
	@$(BIN)/python -m graph.server.port $(HOST) $(PORT)
	PYTHONPATH=. $(BIN)/langgraph dev --no-browser --no-reload --host $(HOST) --port $(PORT) --n-jobs-per-worker $(JOBS)

# Three processes on two cores, for many tests wait: for a compiler, or their turn at the clock. Whoever is done takes over
# half of what another has left. Then, with nothing beside them, those that assert on measured times. What tests/scheduling.py
# names waits on real clocks and is run once more where it fails: the end of the output names it and why it failed.
test: .make/test check
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not alone and not slow"
	$(BIN)/python -m pytest -m "alone and not slow" $(ALONE)

# The same, what is marked as slow, and every kernel that is held as golden compiled and compared anew: before a release,
# after a change of the judge, and for another g++, nvcc or torch.
test-all: .make/test check
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not alone" --goldens prove
	$(BIN)/python -m pytest -m alone $(ALONE)

# After what renders kernels has changed: compiles and compares what reads differently, and holds it as golden.
goldens: .make/test
	$(BIN)/python -m pytest -n 2 --dist loadfile --goldens renew tests/knowledge

check: .make/test
	$(BIN)/ruff format --check $(SOURCES) tests examples
	$(BIN)/ruff check $(SOURCES) tests examples
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# The property tests on inputs drawn anew, many more of them.
fuzz: .make/test
	$(BIN)/python -m pytest -n 2 -m hypothesis --hypothesis-profile fuzz

bench: .make/run
	PYTHONPATH=tests $(BIN)/python -m bench.run

gpu-check: .make/test
	PYTHONPATH=tests $(BIN)/python -m bench.gpu_check

# After a prompt has changed: the recorded answers, put to the prompts of today.
recordings: .make/run
	PYTHONPATH=tests:tests/support $(BIN)/python -m bench.recorded examples/recorded/*/
	PYTHONPATH=tests $(BIN)/python -m bench.agents_page

format: .make/test
	$(BIN)/ruff check --fix $(SOURCES) tests examples
	$(BIN)/ruff format $(SOURCES) tests examples

.make/run: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "cutegen needs Python 3.11 or later; name one with: make PYTHON=python3.11 ..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	$(WARM)
	@mkdir -p .make && touch $@

.make/test: .make/run
	$(INSTALL) -e '.[test]'
	@touch $@

clean:
	rm -rf $(VENV) .make build *.egg-info
