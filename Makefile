# Two commands on a fresh machine: `make bench` measures, `make test` tests. Both set up first; a second call installs nothing.
# `make bench RUN=--quick` hands options to `pipebench run`.
# `make test PYTHON=python3.14 VENV=.venv-3.14` tests with another Python, in an environment of its own.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
# two to four processes, each of which takes whole files of tests
PARALLEL := --numprocesses logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder
STAMP := $(VENV)/installed-$(shell $(PYTHON) -c "import hashlib; print(hashlib.sha256(open('pyproject.toml','rb').read()).hexdigest()[:16])")

# the many processes of a run read pipebench compiled, also where a container's settings forbid to keep that
unexport PYTHONDONTWRITEBYTECODE

LOADERS := .venv-loaders
LIBRARIES := .venv-libraries

.PHONY: bench loaders test lint setup simd test-readme test-pages test-slow test-long test-timing test-cuda test-scripts test-oldest test-libraries soak clean

bench: setup
	$(BIN)/pipebench run $(RUN)

# every loader that can be installed, side by side, in an environment of its own: fetches 8 GB, once.
# `make loaders RUN=--quick` hands options to `pipebench loaders`
loaders: $(LOADERS)/bin/pipebench
	$(LOADERS)/bin/pipebench loaders $(RUN)

$(LOADERS)/bin/pipebench:
	$(PYTHON) -m venv $(LOADERS)
	$(LOADERS)/bin/python -m pip install --quiet --editable '.[loaders]'

test: setup
	$(BIN)/python -m pytest $(PARALLEL)

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "pipebench needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || { echo "Setting up $(VENV): torch and the rest take 5 GB and a few minutes, once"; $(PYTHON) -m venv $(VENV); }
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python tools/probe.py
	@rm -f $(VENV)/installed-*
	@touch $@

# pillow-simd beside Pillow, for its rows of the table
simd: setup
	$(BIN)/pipebench build pillow-simd

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# every command of the README and of the user's pages in docs/, but the two above
test-readme: setup
	$(BIN)/python -m pytest tests/test_readme.py -m ""

# reports as pages, in a real browser: without Chromium they are skipped
test-pages: setup
	$(BIN)/python -m pytest tests/render/html/test_html_in_chromium.py -m slow

# what takes longer than the suite should; the pages and their commands are test-pages and test-readme
test-slow: setup
	$(BIN)/python -m pytest $(PARALLEL) -m slow --ignore tests/test_readme.py --ignore tests/render/html/test_html_in_chromium.py

# what takes longer than CI may: asv over commits, long fuzzing, whole programs under every fault
test-long: setup
	$(BIN)/python -m pytest $(PARALLEL) -m "long and not timing"

test-timing: setup
	$(BIN)/python -m pytest -m timing

test-cuda: setup
	$(BIN)/python -m pytest -m cuda

# training scripts that others published, and programs on others' packages, plainly and watched: fetches the libraries,
# 2.5 GB on disk, once
test-scripts: setup
	$(BIN)/python tools/real_scripts.py $(SCRIPTS)
	$(BIN)/python tools/real_packages.py $(SCRIPTS)

# what runs in users' scripts, `advise` and `syncs`, with the oldest torch that they are for (Python 3.11 or 3.12): fetches
# 3 GB, once. The libjpeg of that torchvision cannot skip lines, so crops from bytes cannot be tried there
test-oldest: $(OLDEST)/installed
	$(OLDEST)/bin/python -m pytest $(PARALLEL) tests/watch tests/advice tests/syncpoints \
		--ignore tests/advice/test_from_bytes.py --ignore tests/advice/test_packed_crops.py

$(OLDEST)/installed: pyproject.toml
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet 'torch==2.4.*' 'torchvision==0.19.*' --editable . \
		pytest pytest-xdist datasets opencv-python simplejpeg threadpoolctl torchdata webdataset
	@touch $@

# the tests of packages that `dev` does not bring (tests/libraries.py names them); one that is skipped has failed. Those
# of loaders run where `make loaders` installs these. Fetches 8 GB for them and 7 GB for the others, once
test-libraries: $(LIBRARIES)/installed $(LOADERS)/installed
	$(LIBRARIES)/bin/python -m pytest -m "library and not cuda" --ignore tests/loaders
	$(LOADERS)/bin/python -m pytest -m "library and not cuda" tests/loaders

$(LIBRARIES)/installed: pyproject.toml
	$(PYTHON) -m venv $(LIBRARIES)
	$(LIBRARIES)/bin/python -m pip install --quiet --editable '.[libraries]'
	@touch $@

$(LOADERS)/installed: pyproject.toml | $(LOADERS)/bin/pipebench
	$(LOADERS)/bin/python -m pip install --quiet pytest --editable '.[loaders]'
	@touch $@

# `watch` and `run` in turn under random faults; exit status 1 if anything is left or wrong. SOAK_MINUTES=5 for less
SOAK_MINUTES ?= 20
soak: setup
	$(BIN)/python tools/soak.py --minutes $(SOAK_MINUTES) $(SOAK)

clean:
	rm -rf $(VENV) $(OLDEST) $(LOADERS) $(LIBRARIES) .asv .mypy_cache .ruff_cache .pytest_cache
