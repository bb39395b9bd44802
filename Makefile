# Every target sets up what it needs in a virtual environment of its own.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test docs reproduce clean

demo: $(VENV)/.installed
	$(BIN)/python examples/double_well.py demo

reproduce: $(VENV)/.installed
	$(BIN)/itofit reproduce --quick -o reproduction

test: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q
	$(MAKE) docs

docs: $(VENV)/.installed
	$(BIN)/sphinx-build --quiet --jobs 2 --fail-on-warning --keep-going -b html docs build/docs

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV) demo reproduction build dist docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
