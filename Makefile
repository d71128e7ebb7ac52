# Commands of the project; CONTRIBUTING.md explains them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-20s %s\n", $$1, $$2}'

install: .venv/.installed ## virtual environments from the pinned lock, uv included (under two minutes)
.venv/.installed: include/install.py pyproject.toml $(wildcard requirements*.txt) include/trainer/requirements.txt include/stack/requirements.txt
	$(PYTHON) include/install.py

lock: ## pin every requirement anew
	$(PYTHON) include/install.py --lock

check: .venv/.installed ## format, lint, types, the fast tiers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/codespell
	$(PYTHON) tests/run_tiers.py core

format: .venv/.installed ## format and sort imports
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: .venv/.installed ## everything on this machine, one training; stays up until Ctrl-C. ONCE=1 ends it; MODEL=, STATE=
	@$(BIN)/python -m stack.demo $(if $(ONCE),--once) $(if $(MODEL),--model $(MODEL)) $(if $(STATE),--state $(STATE))

sandbox-up: .venv/.installed ## a Kubernetes cluster on this machine; NODES=, GPUS= (a node), KIND=, KWOK= (nodes of that kind), KUEUE=1, STATE= (its folder)
	@$(BIN)/python -m sandbox up $(if $(NODES),--nodes $(NODES)) $(if $(GPUS),--gpus $(GPUS)) $(if $(KIND),--kind $(KIND)) $(if $(STATE),--state $(STATE)) \
		$(if $(KWOK),--kwok-nodes $(KWOK)) $(if $(KUEUE),--kueue)

sandbox-down: .venv/.installed ## end the cluster and remove all of it; STATE=
	@$(BIN)/python -m sandbox down $(if $(STATE),--state $(STATE))

sandbox-status: .venv/.installed ## versions, ports, processes, nodes, pods, memory; JSON=1, STATE=
	@$(BIN)/python -m sandbox status $(if $(JSON),--json) $(if $(STATE),--state $(STATE))

sandbox-selftest: .venv/.installed ## prove that each fault of the sandbox has the effect it names
	$(BIN)/python -m pytest -q -p tests.cluster.fault_count tests/cluster/test_sandbox_faults.py tests/cluster/test_sandbox_proxy.py

test: .venv/.installed ## every tier that this machine can run, a line a tier
	$(PYTHON) tests/run_tiers.py

test-%: .venv/.installed ## one tier: core, trainer, unit, dags, cluster, containerd or stack
	$(PYTHON) tests/run_tiers.py $*

faults: .venv/.installed ## who dies when: 54 trainings with a death in the middle on the whole stack, GPU-seconds and verdict a line. ARGS="deferred"
	@$(BIN)/python -m tests.stack.faults.run $(ARGS)

cases: .venv/.installed ## faults met in public, a line a case, and whether each holds; THEME=identity,kill; STOCK=1: shows in the stock operator
	@$(BIN)/python -m tests.run_cases $(if $(THEME),--theme $(THEME)) $(if $(STOCK),--stock)

wheel: ## build/dist/*.whl of the package
	$(PYTHON) include/install.py --wheel

clean: ## what was built; the binary cache stays
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis

bench-detect: .venv/.installed ## from a Job's final condition to the trigger's event
	$(BIN)/python -m bench.detect

bench-logs: .venv/.installed ## following logs beside kubectl logs -f, on the same streams: 1 GiB of one pod, of 64 pods at once. ARGS="--rows one --size 64MiB"
	$(BIN)/python -m bench.logs $(ARGS)

bench-demo: .venv/.installed ## the whole demo with binaries cached, step by step
	$(BIN)/python -m bench.demo

bench-sandbox: .venv/.installed ## the sandbox: up, memory, down, what is left; five runs
	$(BIN)/python -m bench.sandbox

bench-scale: .venv/.installed ## 1,000 and 5,000 nodes, 5,000 pods; half an hour. ARGS="--nodes 1000"
	$(BIN)/python -m bench.scale $(ARGS)

bench-pending: .venv/.installed ## why a training waits: how soon each cause is told, and the cost with 5,000 nodes; ten minutes, alone
	$(BIN)/python -m bench.pending $(ARGS)

bench-waste: .venv/.installed ## GPU-seconds wasted by ours, the stock operator, and that one tuned. ARGS="--rows host-oom,cleared"
	$(BIN)/python -m bench.waste $(ARGS)

.PHONY: help faults install lock check format demo sandbox-up sandbox-down sandbox-status sandbox-selftest test cases wheel clean \
	bench-detect bench-demo bench-logs bench-pending bench-sandbox bench-scale bench-waste
