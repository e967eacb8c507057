# make demo and make test need python3 (3.11 or newer) and nothing else. Each target installs only what it needs.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt

.PHONY: install setup demo test test-all lint bench docs screenshots

install: .venv/installed

setup: .venv/dev .venv/docs .venv/lab

.venv/installed: pyproject.toml setup.py constraints.txt $(wildcard src/csprop/ops/native/*pp)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'csprop needs Python 3.11 or newer: make PYTHON=python3.11' >&2; exit 1; }
	@echo 'Making an environment in .venv: the install takes a minute or two.'
	@$(PYTHON) -m venv .venv
	@rm -f src/csprop/ops/native/kernel*.so
	@echo 'Installing torch and the few other libraries that csprop needs.'
	@$(PIP) $$($(BIN)/python -c 'import tomllib; \
		print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"])')
	@echo 'Installing csprop: its kernel is compiled, if there is a C++ compiler.'
	@$(PIP) -e .
	@touch $@

# csprop is there already: only what an extra adds is installed, and nothing is compiled again.
.venv/dev .venv/docs: .venv/%: .venv/installed
	$(PIP) 'csprop[$*]'
	@touch $@

.venv/lab: .venv/installed src/csprop_lab/pyproject.toml
	$(PIP) -e src/csprop_lab
	@touch $@

demo: install
	@rm -rf runs/demo
	$(BIN)/csprop demo --out runs/demo

# A worker takes over half of what another has left: most files stay on one worker, with their fixtures.
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
EXTRAS := .venv/onnx .venv/notebooks .venv/ray .venv/peers .venv/browser

test: setup $(EXTRAS)
	$(PYTEST) -m 'not slow'

test-all: setup $(EXTRAS)
	$(PYTEST) -m slow

# What cannot be installed is not tested: models as ONNX files, the notebooks, the study on a Ray cluster, and
# other people's layers beside other implementations.
.venv/onnx .venv/notebooks: .venv/%: .venv/installed
	@$(PIP) 'csprop[$*]' || echo 'csprop[$*] could not be installed: its tests will be skipped' >&2
	@touch $@

.venv/ray .venv/peers: .venv/%: .venv/lab
	@$(PIP) 'csprop-lab[$*]' || echo 'csprop-lab[$*] could not be installed: its tests will be skipped' >&2
	@touch $@

# The page is tried in a real browser; where there is none and none can be installed, it is not.
.venv/browser: .venv/installed
	@$(PIP) playwright axe-playwright-python || \
		echo 'playwright could not be installed: tests in a browser will be skipped' >&2
	@command -v chromium >/dev/null || { echo 'Installing chromium for the tests of the page.'; \
		{ apt-get -qq update; apt-get -qq install -y chromium; } >/dev/null 2>&1; } || \
		echo 'chromium could not be installed: tests in a browser will be skipped' >&2
	@touch $@

# pyright needs node, and finds it in a wheel (pyright[nodejs]); it is not to look for a newer version.
lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --project pyproject.toml

# What cannot be installed is not measured, and the tables say so.
bench: .venv/lab
	@$(PIP) 'csprop-lab[bench]' || \
		echo 'some of mambapy, onnx, onnxruntime and scikit-learn could not be installed' >&2
	$(BIN)/csprop bench

# The theme announces that it is maintained until May 2027, which is no fault of a page.
docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

screenshots: install .venv/browser
	$(BIN)/python docs/figures/screenshots.py
