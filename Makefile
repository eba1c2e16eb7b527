# Two commands do everything: `make flywheel` and `make test`. Both need Python 3.11+ and make only.
PY ?= python3
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
# A folder of wheels that pip knows is given to uv too (an empty value is harmless).
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)

SOURCE ?=
FORMAT ?= auto
ARGUMENTS ?=

.PHONY: install flywheel ui demo test integration soak bench check lock repro clean

install: .venv/.ok

.venv/.ok: pyproject.toml constraints.txt
	$(PY) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check "uv>=0.9"
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e ".[dev]"
	touch $@

flywheel: .venv/.ok
	@mkdir -p data/reports
	$(BIN)/harness flywheel $(if $(SOURCE),--source $(SOURCE) --format $(FORMAT)) $(ARGUMENTS) > data/reports/flywheel.json

ui: .venv/.ok
	$(BIN)/mlflow ui --backend-store-uri sqlite:///mlruns/mlflow.db --default-artifact-root ./mlruns/artifacts --host 127.0.0.1 --workers 1

# An agent alone and behind the proxy, then its decisions learnt from; ten minutes on two cores.
demo: .venv/.ok
	OMP_NUM_THREADS=1 $(BIN)/python examples/demo.py $(ARGUMENTS)

repro: .venv/.ok
	$(BIN)/dvc repro

check: .venv/.ok
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/architecture

test: .venv/.ok
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --no-loadscope-reorder

# 20,000 hostile programs, slow ones among them, then the proxy under load: ten minutes each.
soak: .venv/.ok
	$(BIN)/python -m tests.soak.hostile
	$(BIN)/python -m tests.soak.proxy --minutes 10

# Wants other packages than ours; with the same torch, so that the two can be compared.
.venv-d3rlpy/.ok: pyproject.toml constraints.txt .venv/.ok
	$(BIN)/uv venv -q --clear --python $(PY) .venv-d3rlpy
	$(BIN)/uv pip install -q --python .venv-d3rlpy/bin/python "d3rlpy==2.8.1" "$$(grep ^torch== constraints.txt)"
	touch $@

# Tests of what CI has not: d3rlpy, peers of the extra `bench`, and a container engine if there is one.
integration: .venv/.ok .venv-d3rlpy/.ok
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e ".[bench]"
	OMP_NUM_THREADS=1 HARNESS_BENCH_D3RLPY_PYTHON=$(CURDIR)/.venv-d3rlpy/bin/python $(BIN)/python -m pytest -q -n 2 -rs tests/learners/test_d3rlpy_agreement.py tests/benchmarks tests/sandbox

# What its server imports and no more: all that optillm declares is 7 GB, this is 0.2 GB.
.venv-optillm/.ok: pyproject.toml constraints.txt .venv/.ok
	$(BIN)/uv venv -q --clear --python $(PY) .venv-optillm
	$(BIN)/uv pip install -q --python .venv-optillm/bin/python --no-deps "optillm==0.3.20"
	$(BIN)/uv pip install -q --python .venv-optillm/bin/python -c constraints.txt "cerebras-cloud-sdk==1.91.0" "math-verify==0.9.0" "z3-solver==4.15.4.0" aiohttp flask networkx numpy openai pyyaml sympy
	touch $@

# Writes docs/results.md: 55 minutes on two quiet cores from an empty folder, where programs of 16,000
# candidates are run first. Other tools grade without isolation.
bench: .venv/.ok .venv-d3rlpy/.ok .venv-optillm/.ok
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e ".[bench]"
	OMP_NUM_THREADS=1 HARNESS_BENCH_D3RLPY_PYTHON=$(CURDIR)/.venv-d3rlpy/bin/python HARNESS_BENCH_OPTILLM_PYTHON=$(CURDIR)/.venv-optillm/bin/python $(BIN)/harness bench all $(ARGUMENTS)

lock:
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links --no-annotate --no-header --extra dev --extra bench --extra otlp pyproject.toml -o constraints.txt
	# CUDA libraries come with the CUDA build of torch only, and either build of it is fine.
	sed -E '/^(nvidia-|cuda-|triton)/d; s/^(torch==[0-9.]+).*/\1/' constraints.txt | uniq > constraints.tmp
	mv constraints.tmp constraints.txt

clean:
	rm -rf data/raw/sample data/interim data/features data/models data/reports data/quarantine .harness
