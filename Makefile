# `make train` and `make test` are all a newcomer needs; both build their own virtual environment in .venv.

# The first interpreter on the path that is new enough; `make PYTHON=... train` chooses another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INPUTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help install train test test-full test-browser docs lint format clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

# Recipes make the environment if it is missing and install again when the requirements change.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "cloudrl: needs Python 3.11 or newer on the path; or say make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(INPUTS) | $(BIN)/python
	$(PIP) install --quiet -e . -c constraints.txt
	@touch $@

$(VENV)/.installed-dev: $(INPUTS) | $(BIN)/python
	$(PIP) install --quiet -e '.[dev,cloudenv,docs]' -c constraints.txt
	@touch $(VENV)/.installed $@

install: $(VENV)/.installed  ## the virtual environment .venv with the package in it

train: $(VENV)/.installed  ## train PPO on the easy curriculum and print the score table
	$(BIN)/python -m trainers.ppo +curriculum=easy
	@echo
	@echo "To type such commands yourself:  . $(BIN)/activate"

test: $(VENV)/.installed-dev  ## the tests at reduced sizes (under 15 minutes on two cores)
	$(BIN)/python -m pytest -q -n 2
	$(BIN)/python -m pytest -q -n 2 envs/cloudenv/tests

test-full: $(VENV)/.installed-dev  ## the tests at the sizes that the project promises (long)
	CLOUDRL_FULL=1 $(BIN)/python -m pytest -q -n 2
	CLOUDRL_FULL=1 $(BIN)/python -m pytest -q -n 2 envs/cloudenv/tests

docs: $(VENV)/.installed-dev  ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "to read it:  $(BIN)/python -m http.server --bind 127.0.0.1 --directory site"

test-browser: $(VENV)/.installed-dev  ## the pages in Chromium, which must be there (apt install chromium)
	$(PIP) install --quiet -e '.[browser]' -c constraints.txt
	$(BIN)/python -m pytest -q -m browser
	$(BIN)/python -m pytest -q -m browser envs/cloudenv/tests

lint: $(VENV)/.installed-dev  ## style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev  ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove caches and builds (not runs/, not .venv)
	rm -rf build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
