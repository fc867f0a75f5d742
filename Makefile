# make app    creates .venv, installs the app and opens it
# make class  opens the app for a class: phones in this network answer, and only the teacher can change anything
# make test   installs, then runs the quick tests (minutes)
# make slow   runs all other checks: slow tests, generated files, audits, planted faults (about 80 minutes);
#             it resumes where it stopped if nothing has changed since
# make lint   checks style and types
# make format repairs style
# make docs   builds the documentation in docs/_build/html; every warning is an error
# make rows   recomputes the curves that ship with the samples, where something changed
# make bench  runs the benchmarks
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
export OPENBLAS_NUM_THREADS ?= 1
# The app and the tests start many processes; without bytecode each would compile all modules again.
export PYTHONDONTWRITEBYTECODE =

.PHONY: app class test slow slow-faults slow-reading slow-releases slow-environments lint format docs rows bench clean

app: $(VENV)/.app
	@echo "==> Opening DPMC Lab (stop it with Ctrl-C)"
	@$(BIN)/python -m dpmc_lab app $(ARGS)

class: $(VENV)/.app
	@echo "==> Opening DPMC Lab to this network, for a class (stop it with Ctrl-C)"
	@$(BIN)/python -m dpmc_lab app --class $(ARGS)

test: $(VENV)/.dev
	@echo "==> Running the tests"
	@$(BIN)/python -m pytest -m "not slow" -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

# Each group is a folder of tests and the beginning of file names. A group or step that has passed on
# this tree does not run again (.ci/step); its output is in .slow/. Tests of pages share no server, so
# those of one long file (a thousand absurd addresses for each page) are spread over the processes.
SLOW_GROUPS := core/test_[a-l] core/test_[m-z] data/test_ lab/test_[a-l] lab/test_[m-r] lab/test_[s-z] \
	pages/test_[a-o] pages/test_[p-z] browser/test_browser. browser/test_browser_[a-e] \
	browser/test_browser_[f-m] browser/test_browser_[n-z] test_

slow: $(VENV)/.dev
	@for group in $(SLOW_GROUPS); do \
		echo "==> Slow tests: $$group"; \
		case $$group in pages/*) spread=load ;; *) spread=loadfile ;; esac; \
		.ci/step "tests-$$(echo $$group | tr / -)" $(BIN)/python -m pytest -m slow -n 3 --dist $$spread \
			--no-loadscope-reorder tests/$$group* || exit 1; \
	done
	@$(MAKE) --no-print-directory -j 2 --output-sync=target slow-faults slow-reading slow-releases slow-environments
	@echo "==> Every command with closed outputs, odd terminals, Ctrl-C and absurd values"
	@.ci/step commands $(BIN)/python benchmarks/command_line.py
	@echo "==> Audits: error rates, bounds, and the planted faults that they detect"
	@.ci/step audits $(BIN)/python benchmarks/audits.py
	@echo "==> Planted faults: a test must notice each"
	@.ci/step mutants $(BIN)/python benchmarks/mutants.py --resume .slow/mutants.killed

# Two of these run at a time, because each keeps one processor busy.
slow-faults:
	@echo "==> Faults of the machine: rows are kept, uploads are deleted, every fault has a message"
	@.ci/step faults $(BIN)/python benchmarks/faults.py
slow-reading:
	@echo "==> Files of ratings, compared with a plain reader"
	@.ci/step reading $(BIN)/python benchmarks/wild.py --mutations 300 $(ARGS)
slow-releases:
	@echo "==> Damaged releases: each is refused with a message, or reads as the original"
	@.ci/step releases $(BIN)/python benchmarks/release_fuzz.py
slow-environments:
	@echo "==> The app with other versions of Python and of its packages"
	@.ci/step environments $(BIN)/python benchmarks/environments.py

lint: $(VENV)/.dev
	@echo "==> Style"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "==> Types"
	@$(BIN)/mypy

format: $(VENV)/.dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# From nothing each time: Sphinx repeats no warning about a page that it has read before.
docs: $(VENV)/.dev
	@echo "==> Building the documentation"
	@rm -rf docs/_build
	@$(BIN)/python -m sphinx -q -W --keep-going docs docs/_build/html
	@echo "    docs/_build/html/index.html"

# Benchmarks that `make slow` runs, and those that compare two states of the program.
SLOW := $(patsubst %,benchmarks/%.py,command_line environments faults frozen mutants release_fuzz)

# Recomputes the curves that ship with the samples, where something changed; resumes where it stopped.
rows: $(VENV)/.app
	@mkdir -p .rows
	@$(BIN)/python sample_data/compute.py --store .rows/results.sqlite

bench: $(VENV)/.app
	@echo "==> benchmarks/RESULTS.md"
	@$(BIN)/python benchmarks/table.py --write benchmarks/RESULTS.md
	@for script in $(filter-out $(SLOW) benchmarks/table.py,$(wildcard benchmarks/*.py)); do echo "==> $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) .slow docs/_build build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache

# The empty files .app and .dev in the environment mark what is installed, so that a second run is quick.
$(VENV)/bin/python:
	@echo "==> Creating the environment in $(VENV)"
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
		{ echo "Python 3.11 or newer is needed: run 'make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)'"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "Could not create $(VENV); on Debian: apt install python3-venv"; exit 1; }

DEVELOPMENT := .[dev,docs]
define install
@$(BIN)/python -m pip install --disable-pip-version-check -r requirements.txt -e '$(1)'
@$(BIN)/python -m compileall -q dpmc_core dpmc_data dpmc_lab pages
endef

$(VENV)/.app: requirements.txt pyproject.toml | $(VENV)/bin/python
	@echo "==> Installing the app (about a minute, once)"
	$(call install,.)
	@touch $@

$(VENV)/.dev: requirements.txt pyproject.toml | $(VENV)/bin/python
	@echo "==> Installing the app and what its tests need (a few minutes, once)"
	$(call install,$(DEVELOPMENT))
	@touch $@ $(VENV)/.app
