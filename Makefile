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
