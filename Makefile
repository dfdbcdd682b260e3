# Everything a fresh machine needs: CPython 3.11+, a JDK 17+, make. Each target builds what it is missing.
PYTHON ?= python3
SPARK := 4.3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JAR := src/headrace/headrace-connector.jar
PYTHON_CODE := src tests examples benchmarks faults tools setup.py
ARCHIVE := $(VENV)/spark-classes.jsa
JAVA_SOURCES := $(shell find connector/src/main -type f)

# Several processes of tests, each with a Spark of its own. A file's tests stay together, as they share what is costly to
# start. Some wait more than they work (for a silent peer, for a JVM): more at a time than there are cores.
UNIT_TESTS := -n 4 --dist worksteal tests/unit
SPARK_TESTS := -n 3 --dist loadfile --no-loadscope-reorder tests/process tests/spark
# The tests for every day, and the others: further cases of tests that have many, tests that take long (tests/support/effort.py).
DAILY := --part daily
REST := --part rest

.DEFAULT_GOAL := help
.PHONY: help demo test rest unit soak test-oldest matrix spark-tests jars lint docs bench faults jar wheel release-check clean jdk

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(STAMP) $(JAR)  ## Run the main job: a pull and a push table, queried live
	$(BIN)/headrace demo

test: $(STAMP) $(JAR) $(ARCHIVE)  ## Run the tests for every day, several at a time (TESTS="tests/spark -k stop" for all cases of some)
ifdef TESTS
	$(BIN)/python -m pytest $(TESTS)
else
	$(BIN)/python -m pytest $(DAILY) $(UNIT_TESTS)
	$(BIN)/python -m pytest $(DAILY) $(SPARK_TESTS)
endif

rest: $(STAMP) $(JAR) $(ARCHIVE)  ## Run what test leaves out
	$(BIN)/python -m pytest $(REST) $(UNIT_TESTS)
	$(BIN)/python -m pytest $(REST) $(SPARK_TESTS)

unit: $(STAMP)  ## Run the tests of test that need no Spark
	$(BIN)/python -m pytest $(DAILY) $(UNIT_TESTS)

soak: $(STAMP) $(JAR) $(ARCHIVE)  ## Run every test with all its random cases, then the long ones (TESTS="tests/soak" for some)
ifdef TESTS
	$(BIN)/python -m pytest --soak $(TESTS)
else
	$(BIN)/python -m pytest --soak $(UNIT_TESTS)
	$(BIN)/python -m pytest --soak $(SPARK_TESTS)
	$(BIN)/python -m pytest --soak tests/soak
endif

test-oldest:  ## Run the core tests on the oldest Spark, in an environment of its own, and compile the connector against it
	$(MAKE) test SPARK=4.0 VENV=.venv-oldest TESTS="$(DAILY) -n 2 --dist loadfile --no-loadscope-reorder tests/spark -m core"
	.venv-oldest/bin/python -m tools.classes --jar

matrix: $(STAMP) jars  ## Run the tests on every Spark, JDK and Python at hand; writes docs/compatibility.md
	$(BIN)/python -m tools.matrix $(ARGS)

spark-tests: $(STAMP) $(JAR)  ## Run Spark's own tests of the Python Data Source through Headrace (SPARK_SOURCE=a checkout of apache/spark)
	$(BIN)/python -m tools.spark_data_source_tests "$(SPARK_SOURCE)"

jars: $(STAMP)  ## Compile the connector against every Spark and compare the class files
	$(BIN)/python -m tools.classes

lint: $(STAMP)  ## Check style and types, and the connector for javac's warnings
	$(BIN)/ruff check $(PYTHON_CODE)
	$(BIN)/ruff format --check $(PYTHON_CODE)
	$(BIN)/mypy
	$(BIN)/python -m tools.java_lint

docs: $(STAMP)  ## Build the documentation site into build/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html can be read as it is; for its search: $(BIN)/python -m http.server --directory build/site"

bench: $(STAMP) $(JAR)  ## Measure against the rivals (FULL=1 for all, ARGS="--only push")
	$(BIN)/python -m benchmarks $(if $(FULL),--full) $(ARGS)

faults: $(STAMP) $(JAR)  ## Random faults on a real cluster, judged (ARGS="--runs 40 --seed 7")
	PYTHONPATH=. $(BIN)/python -m faults $(ARGS)

jar: $(STAMP) $(JAR)  ## Compile the connector

wheel: $(STAMP)  ## Build the wheel into dist/, against the oldest Spark
	rm -f $(JAR)
	$(BIN)/pip wheel --no-deps -w dist .

release-check: $(STAMP)  ## Build wheel and sdist, check them, and try the wheel in empty environments, on every Spark
	$(BIN)/pip install --quiet --group release
	$(BIN)/python -m tools.release_check

clean:  ## Remove everything that was built
	rm -rf $(VENV) .venv-oldest .matrix build dist src/*.egg-info $(JAR)

$(STAMP): pyproject.toml setup.py | jdk
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet 'setuptools>=77' 'pyspark==$(SPARK).*'
	$(BIN)/pip install --quiet --group dev
	$(BIN)/pip install --quiet --no-build-isolation --editable '.[cli,sql,pandas]'
	touch $@

$(JAR): $(JAVA_SOURCES) setup.py | $(STAMP)
	$(BIN)/python setup.py connector
	touch $@

# Spark's classes as the JVM keeps them: the tests start many a JVM.
$(ARCHIVE): $(STAMP) | $(JAR)
	$(BIN)/python tests/support/class_archive.py

jdk:
	@command -v javac >/dev/null || { \
	  echo "Headrace needs a JDK (javac), version 17 or newer, and none is on the PATH."; \
	  echo "Debian and Ubuntu: apt-get install openjdk-17-jdk-headless"; exit 1; }
