# make app   create .venv, install, open the app          make lint   style and types
# make test  the same, then the tests (minutes)           make bench  the benchmarks
# make class the app for a class: phones in this network answer, only the teacher changes things
# make slow  what takes longer: the other tests, files by the thousand, audits, planted faults (hours);
#            it goes on where it stopped, as long as nothing has changed
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
export OPENBLAS_NUM_THREADS ?= 1
# App and tests start many processes: without bytecode each would compile everything anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: app class test slow lint format rows bench clean

app: $(VENV)/.app
	@echo "==> Opening DPMC Lab (stop it with Ctrl-C)"
	@$(BIN)/python -m streamlit run app.py $(ARGS)

class: $(VENV)/.app
	@echo "==> Opening DPMC Lab to this network, for a class (stop it with Ctrl-C)"
	@DPMC_CLASS=1 $(BIN)/python -m streamlit run app.py --server.address 0.0.0.0 \
		--server.headless true --logger.hideWelcomeMessage true $(ARGS)

test: $(VENV)/.dev
	@echo "==> Running the tests"
	@$(BIN)/python -m pytest -m "not slow" -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

# Files of tests by their folder and how their names begin. A group or step that has passed on
# this tree is not run again (.ci/step); what each printed is in .slow/.
SLOW_GROUPS := core/test_[a-l] core/test_[m-z] lab/test_[a-l] lab/test_[m-r] lab/test_[s-z] \
	pages/test_[a-o] pages/test_[p-z] browser/test_browser. browser/test_browser_[a-e] \
	browser/test_browser_[f-m] browser/test_browser_[n-z] browser/test_[c-z] test_

slow: $(VENV)/.dev
	@for group in $(SLOW_GROUPS); do \
		echo "==> The tests that take longer: $$group"; \
		.ci/step "tests-$$(echo $$group | tr / -)" $(BIN)/python -m pytest -m slow -n 3 --dist loadfile \
			--no-loadscope-reorder tests/$$group* || exit 1; \
	done
	@echo "==> Files of ratings against a plain reader"
	@.ci/step reading $(BIN)/python benchmarks/reading_fuzz.py $(ARGS)
	@echo "==> Faults of the machine: rows kept, uploads gone, every trouble a sentence"
	@.ci/step faults $(BIN)/python benchmarks/faults.py
	@echo "==> Damaged releases, each refused in a sentence or the same"
	@.ci/step releases $(BIN)/python benchmarks/release_fuzz.py
	@echo "==> Audits: how often they are wrong, what they reach, which faults they notice"
	@.ci/step audits $(BIN)/python benchmarks/audits.py
	@echo "==> Every command under whatever befalls a command line"
	@.ci/step commands $(BIN)/python benchmarks/command_line.py
	@echo "==> The app on other Pythons and with other versions"
	@.ci/step environments $(BIN)/python benchmarks/environments.py
	@echo "==> Faults, each planted and noticed (under an hour)"
	@.ci/step mutants $(BIN)/python benchmarks/mutants.py --resume .slow/mutants.killed

lint: $(VENV)/.dev
	@echo "==> Style"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "==> Types"
	@$(BIN)/mypy

format: $(VENV)/.dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# What `make slow` runs, and what compares two states of the program.
SLOW := $(patsubst %,benchmarks/%.py,command_line environments faults frozen mutants release_fuzz)

# The curves that ship with the samples: what changed is computed again, going on where it stopped.
rows: $(VENV)/.app
	@mkdir -p .rows
	@$(BIN)/python sample_data/compute.py --store .rows/results.sqlite

bench: $(VENV)/.app
	@echo "==> benchmarks/RESULTS.md"
	@$(BIN)/python benchmarks/table.py --write benchmarks/RESULTS.md
	@for script in $(filter-out $(SLOW) benchmarks/table.py,$(wildcard benchmarks/*.py)); do echo "==> $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) .slow build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache

# The empty files .app and .dev in the environment stand for "installed", so a second run is quick.
$(VENV)/bin/python:
	@echo "==> Creating the environment in $(VENV)"
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
		{ echo "Python 3.11 or newer is needed: run 'make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)'"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "Could not create $(VENV); on Debian: apt install python3-venv"; exit 1; }

define install
@$(BIN)/python -m pip install --disable-pip-version-check -r requirements.txt -e '$(1)'
@$(BIN)/python -m compileall -q dpmc_core dpmc_lab pages
endef

$(VENV)/.app: requirements.txt pyproject.toml | $(VENV)/bin/python
	@echo "==> Installing the app (about a minute, once)"
	$(call install,.)
	@touch $@

$(VENV)/.dev: requirements.txt pyproject.toml | $(VENV)/bin/python
	@echo "==> Installing the app and what its tests need (a few minutes, once)"
	$(call install,.[dev])
	@touch $@ $(VENV)/.app
