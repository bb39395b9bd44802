# Every target sets up what it needs in a virtual environment of its own.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# Compiled modules are kept, also where Python is told to keep none: tests start many processes, which would compile all
# of them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test pytest mypy docs package oldest reproduce clean

demo: $(VENV)/.usable
	$(BIN)/python examples/double_well.py demo

reproduce: $(VENV)/.installed
	$(BIN)/itofit reproduce --quick -o reproduction

test: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory --keep-going --jobs=2 pytest mypy

mypy: $(VENV)/.installed
	$(BIN)/mypy

# A file of tests runs in one process, which makes what its tests share once.
pytest: $(VENV)/.installed
	$(BIN)/pytest -q --numprocesses=logical --dist=loadfile --no-loadscope-reorder --durations=10

docs: $(VENV)/.installed
	$(BIN)/sphinx-build --quiet --jobs 2 --fail-on-warning --keep-going -b html docs build/docs

# Wheel and source distribution, and whether a fresh environment can use them as people do.
package: $(VENV)/.installed
	rm -rf dist build/fresh
	@mkdir -p build
	$(BIN)/python -m build --outdir dist > build/package.log 2>&1 || { cat build/package.log; exit 1; }
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv build/fresh
	build/fresh/bin/python -m pip install --quiet "$$(ls dist/*.whl)[cli,data,plot]"
	build/fresh/bin/python -I tests/packaged.py dist
	$(BIN)/mypy --strict --config-file= --cache-dir=build/mypy --python-executable=build/fresh/bin/python tests/user_program.py

# The tests with the oldest versions that pyproject.toml allows, whose own deprecations are no errors; once before a release.
oldest:
	@mkdir -p build
	$(PYTHON) tests/oldest_versions.py > build/oldest.txt
	$(PYTHON) -m venv build/oldest
	build/oldest/bin/python -m pip install --quiet --constraint build/oldest.txt --editable '.[test]'
	build/oldest/bin/pytest -q -W default --numprocesses=logical --dist=loadfile --no-loadscope-reorder

# What users install; what tests need comes on top of it.
$(VENV)/.usable: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[cli,data,plot]'
	touch $@

$(VENV)/.installed: $(VENV)/.usable
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV) demo reproduction build dist docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
