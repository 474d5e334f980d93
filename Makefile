# Every target sets up what it needs; `make help` lists them. PYTHON picks the interpreter: make demo PYTHON=python3.12

PYTHON ?= python3
PY := .venv/bin/python
READY := .venv/.ready
OLD_SDK := .venv-openreward-0.1.156
EXTRAS := test,codegen

# What .venv was made for: this folder, since its scripts hold full paths, and a Python. Anything else makes it anew.
asked := $(if $(filter-out file default undefined,$(origin PYTHON)),$(or $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null),none))
made_for := $(shell cat $(READY) 2>/dev/null)
wanted := $(CURDIR) $(or $(asked),$(lastword $(made_for)))
other := turnspec needs Python 3.11 or newer; name one: make $(or $(firstword $(MAKECMDGOALS)),setup) PYTHON=python3.12
usable := import pip, sys; sys.exit("$(asked)" not in ("", "%d.%d" % sys.version_info[:2]))

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format generate check-generated pytest bench clean interop-venv FORCE

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null \
	  || sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1 - \2/p' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with everything the other targets need
	@echo ".venv is ready"

# The stamp is removed first and written last, so that what was interrupted runs again.
$(READY): pyproject.toml $(if $(filter-out $(wanted),$(made_for))$(filter-out $(made_for),$(wanted)),FORCE)
	@$(PYTHON) -c '' 2>/dev/null || { echo "make: $(PYTHON) does not run. $(other)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is $$($(PYTHON) -V 2>&1). $(other)" >&2; exit 1; }
	@echo "Setting up .venv with $$($(PYTHON) -V 2>&1) (once; takes a minute or two) ..."
	@if [ -n "$(filter-out $(wanted),$(made_for))" ] || ! $(PY) -c '$(usable)' 2>/dev/null; then $(PYTHON) -m venv --clear .venv; fi
	@rm -f $(READY)
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-input --editable '.[$(EXTRAS)]'
	@$(PY) -c 'import sys; print("$(CURDIR)", "%d.%d" % sys.version_info[:2])' > $(READY)

demo: $(READY) ## validate the example tasks and convert them to every provider format
	@$(PY) docs/examples/demo.py

test: lint check-generated pytest ## run every check and every test

lint: $(READY) ## ruff (rules and format) and mypy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(READY) ## let ruff fix and format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

generate: $(READY) ## write generated/ from schema/
	$(PY) -m codegen generate

check-generated: $(READY) ## fail where generated/ is not what schema/ gives
	$(PY) -m codegen check

# The last reference SDK before conversations: servers and clients of that age are tests of ours.
interop-venv: $(OLD_SDK)/.ready ## make the environment of the old reference SDK, for the tests

$(OLD_SDK)/.ready: Makefile | $(READY)
	@echo "Setting up $(OLD_SDK) (once) ..."
	@rm -f $@
	@$(PY) -m venv --clear $(OLD_SDK)
	@$(OLD_SDK)/bin/python -m pip install --quiet --disable-pip-version-check --no-input openreward==0.1.156
	@touch $@

pytest: $(READY) $(OLD_SDK)/.ready
	$(PY) -m pytest -n 2 --dist loadgroup

bench: $(READY) ## print the speed and memory table
	$(PY) -m tests.benchmarks
	$(PY) -m tests.benchmarks.serving

clean: ## remove .venv and all caches
	rm -rf .venv $(OLD_SDK) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
