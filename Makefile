# `make` alone lists the targets. Override the interpreter with PYTHON=python3.12.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist loadgroup
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

.DEFAULT_GOAL := help
.PHONY: help install demo test fast test-broad test-slow coverage lint docs clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "Installing fkpinn and what it needs into $(VENV) (a minute or two, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt -e ".[all,dev]"
	@touch $@

$(VENV)/.docs: $(VENV)/.installed
	@echo "Installing the documentation tools into $(VENV)"
	@$(PIP) install -c constraints.txt -e ".[docs]"
	@touch $@

install: $(VENV)/.installed  ## Create .venv with everything demo and test need

demo: install  ## Solve the mean exit time problem, quickly, and print the path of the report
	$(BIN)/fkpinn solve met --preset quick --out runs/demo

lint: install  ## Style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# pyright fetches its Node package on first use. Errors it finds stop us; being offline does not.
	@if npm_config_fetch_retries=0 PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --version >/dev/null 2>&1; then \
	    echo "$(BIN)/pyright"; \
	    PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python && \
	    PATH="$(CURDIR)/$(BIN):$$PATH" PYRIGHT_PYTHON_IGNORE_WARNINGS=1 \
	        $(BIN)/pyright --ignoreexternal --verifytypes fkpinn; \
	else \
	    echo "pyright cannot start here (it needs Node and, once, the network): types not checked"; \
	fi

test: install  ## Lint and the fast test suite, in parallel
	@$(MAKE) --no-print-directory -j 2 lint fast

fast: install  ## The fast test suite only
	$(PYTEST) -m "not slow and not broad"

test-broad: install  ## The claims of the fast tests on more cases and whole runs
	$(PYTEST) -m "broad and not slow"

test-slow: install  ## The slow tests only
	$(PYTEST) -m slow

coverage: install  ## Branch coverage of the fast tests
	@$(PIP) install -c constraints.txt pytest-cov
	$(PYTEST) -m "not slow and not broad" --cov --cov-report=term-missing:skip-covered

docs: $(VENV)/.docs  ## Build the documentation into site/, in strict mode
	$(BIN)/zensical build --clean --strict

clean:  ## Remove everything that can be rebuilt, including .venv; keeps runs/
	rm -rf $(VENV) build dist site .cache .pytest_cache .ruff_cache .hypothesis .coverage *.egg-info
	find fkpinn tests -name __pycache__ -type d -prune -exec rm -rf {} +
