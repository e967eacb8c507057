# make demo and make test need python3 (3.11 or newer) and nothing else.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test lint bench docs screenshots

setup: .venv/installed

.venv/installed: pyproject.toml setup.py constraints.txt $(wildcard src/csprop/ops/native/*pp)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'csprop needs Python 3.11 or newer: make PYTHON=python3.11' >&2; exit 1; }
	@echo 'Installing csprop into .venv; this takes a minute or two.'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	@touch $@

demo: setup
	@rm -rf runs/demo
	$(BIN)/csprop demo --out runs/demo

test: setup .venv/onnx .venv/ray .venv/browser
	$(BIN)/python -m pytest -n 2

# Models are exported to ONNX; where it cannot be installed, tests of that are skipped.
.venv/onnx: .venv/installed
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[onnx]' || \
		echo 'onnx could not be installed: its tests will be skipped' >&2
	@touch $@

# The study also runs on a Ray cluster; where ray cannot be installed, its test is skipped.
.venv/ray: .venv/installed
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt ray || \
		echo 'ray could not be installed: its test will be skipped' >&2
	@touch $@

# The page is tried in a real browser; where there is none and none can be installed, it is not.
.venv/browser: .venv/installed
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt playwright || \
		echo 'playwright could not be installed: tests in a browser will be skipped' >&2
	@command -v chromium >/dev/null || { echo 'Installing chromium for the tests of the page.'; \
		{ apt-get -qq update; apt-get -qq install -y chromium; } >/dev/null 2>&1; } || \
		echo 'chromium could not be installed: tests in a browser will be skipped' >&2
	@touch $@

# pyright needs node, and finds it in a wheel (pyright[nodejs]); it is not to look for a newer version.
lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --project pyproject.toml

# What cannot be installed is not measured, and the tables say so.
bench: setup
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[bench]' || \
		echo 'some of mambapy, onnx and onnxruntime could not be installed' >&2
	$(BIN)/csprop bench

docs: setup
	$(BIN)/mkdocs build --strict

screenshots: setup .venv/browser
	$(BIN)/python docs/figures/screenshots.py
