# Everything a fresh machine needs: CPython 3.11+, a JDK 17+, make. Each target builds what it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JAR := src/headrace/headrace-connector.jar
JAVA_SOURCES := $(shell find connector/src/main -name '*.java')

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench jar wheel clean jdk

help:  ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(STAMP) $(JAR)  ## Run the main job: a pull and a push table, queried live
	$(BIN)/headrace demo

test: $(STAMP) $(JAR)  ## Run every test
	$(BIN)/python -m pytest $(TESTS)

lint: $(STAMP)  ## Check style and types
	$(BIN)/ruff check src tests examples benchmarks setup.py
	$(BIN)/ruff format --check src tests examples benchmarks setup.py
	$(BIN)/mypy

bench: $(STAMP) $(JAR)  ## Measure against the rivals (FULL=1 for all, ARGS="--only push")
	$(BIN)/python -m benchmarks $(if $(FULL),--full) $(ARGS)

jar: $(STAMP) $(JAR)  ## Compile the connector

wheel: $(STAMP)  ## Build the wheel into dist/
	$(BIN)/pip wheel --no-build-isolation --no-deps -w dist .

clean:  ## Remove everything that was built
	rm -rf $(VENV) build dist src/*.egg-info $(JAR)

$(STAMP): pyproject.toml setup.py | jdk
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet 'setuptools>=77' 'pyspark>=4.3,<4.4'
	$(BIN)/pip install --quiet --group dev
	$(BIN)/pip install --quiet --no-build-isolation --editable '.[cli,sql,pandas]'
	touch $@

$(JAR): $(JAVA_SOURCES) setup.py | $(STAMP)
	$(BIN)/python setup.py connector
	touch $@

jdk:
	@command -v javac >/dev/null || { \
	  echo "Headrace needs a JDK (javac), version 17 or newer, and none is on the PATH."; \
	  echo "Debian and Ubuntu: apt-get install openjdk-17-jdk-headless"; exit 1; }
