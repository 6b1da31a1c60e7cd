# Two commands set everything up:  make learn  and  make test
# Another Python than the first `python3` of this machine:  make learn PYTHON=python3.12

PYTHON ?= python3
BOOTSTRAP = $(PYTHON) course/bootstrap.py

.PHONY: help learn test build grade release bench lint clean python

help:
	@echo "make learn   prepare .venv, copy the lessons to my-lessons/, open JupyterLab where you left off"
	@echo "             make learn TORCH=cpu, the first time: a torch without CUDA (Linux without an NVIDIA GPU)"
	@echo "             make learn ARGS=\"--no-browser --port=8899\" passes options to JupyterLab"
	@echo "make test    run the unit tests and every lesson; slow tests, solutions, a browser: make test ARGS=--slow"
	@echo "make grade   grade submissions: make grade ARGS=\"SUBMISSIONS --lesson 06 --seed-file FILE --out DIR\""
	@echo "make release make a lesson's assignment for nbgrader: make release ARGS=\"06 --out DIR\""
	@echo "make build   rebuild lessons/ and solutions/ from course/source; one of them: make build ARGS=05"
	@echo "make bench   measure solvers and training (about half an hour; a GPU is found): make bench ARGS=--quick"
	@echo "make lint    check the style of the code"
	@echo "make clean   delete .venv and all caches; my-lessons/ stays"

learn test build grade release: python
	@$(BOOTSTRAP) $@ $(ARGS)

bench: python
	@$(BOOTSTRAP) bench --date "`date +%F`" $(ARGS)

lint: python
	@$(BOOTSTRAP) ruff check course mini_attn tests
	@$(BOOTSTRAP) ruff format --check course mini_attn tests

# A python3 that is missing, a stub, or a shim cannot run course/bootstrap.py, so it is asked for a sign of life first.
python:
	@test "`$(PYTHON) -c 'import sys; print(sys.version_info[0])' 2>/dev/null`" = 3 || { \
	  echo "The course needs Python 3.11 or newer, and \`$(PYTHON)\` does not run here: install it" \
	       "(https://www.python.org/downloads/, or your package manager), or name the one to use," \
	       "as in: make $(firstword $(MAKECMDGOALS)) PYTHON=/path/to/python3.12" >&2; exit 1; }

clean:
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find course mini_attn tests -name __pycache__ -type d -prune -exec rm -rf {} +
