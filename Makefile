# `make demo` and `make test` do all the set-up on a fresh machine; bare `make` lists targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
WERROR ?= OFF
# One of each version of CPython that is here and has a PennyLane.
PYTHONS = $(shell .ci/pythons 3.11 3.12 3.13 3.14)
SOURCES := pyproject.toml CMakeLists.txt $(shell find frontend mlir runtime -type f -not -name '*.pyc')

.PHONY: help demo test test-rest test-optional test-needs test-full test-gpu test-deletion test-long test-longest \
  test-tpu test-oldest-jax test-newest-jax environments optional-environment oldest-environment \
  newest-environment durations stress soak fuzz fuzz-hostile sanitize docs docs-with-options linkcheck \
  lint format bench wheels gpu-bundle release-check clean
help:
	@echo "make demo    set up and run the main example, a VQE of H2"
	@echo "make test    set up and run every behaviour once, but the slowest: 5 minutes on two cores"
	@echo "make test-full  the same, and then what it leaves out: some 75 minutes on two cores"
	@echo "make test-gpu  what is marked gpu, on a GPU or on a stand-in for one"
	@echo "make test-optional  what needs PyTorch, Kokkos, Qrack, Graphviz, in an environment with them"
	@echo "make test-deletion  delete abilities in a copy of the tree, and check what remains"
	@echo "make test-long  what these leave out, sanitizers, both ends of the supported JAX and the middle"
	@echo "make test-tpu  compile regions for a TPU, by libtpu, which needs none"
	@echo "make test-oldest-jax  some of the tests on the oldest JAX that is supported"
	@echo "make test-newest-jax  some of the tests on the newest, which needs Python 3.13"
	@echo "make durations  measure quick tests, and leave the slowest to make test-rest"
	@echo "make stress  run programs that hang elsewhere 200 times, from 16 threads at once, and random nested calls"
	@echo "make soak    run millions of callbacks and look at the memory that they leave"
	@echo "make fuzz    draw programs for MINUTES=10 and hold them against plain Python,"
	@echo "             and against another installation with AGAINST=/its/python"
	@echo "make sanitize  test the runtime under Address, UndefinedBehavior and ThreadSanitizer"
	@echo "make docs    run and build the documentation, compare its outputs, check its layout"
	@echo "make linkcheck  ask every address in the documentation whether it is there (online)"
	@echo "make lint    what CI checks besides the tests"
	@echo "make format  format Python and C++"
	@echo "make bench   time the same programs under bellhop, JAX and Catalyst; write tables and plots"
	@echo "make wheels  build an sdist, and a wheel for each Python that is here; audit and try them"
	@echo "make fuzz-hostile  give handlers and load mutated inputs, handlers under AddressSanitizer"
	@echo "make release-check  run all that a release needs; write a page of evidence to doc/releases"
	@echo "make gpu-bundle  write build/gpu-bundle, which reports on a machine with a GPU and no network"
	@echo "make clean   remove what was built"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The package, built once for all sets of extras, and again when its sources change.  0 is how pip is
# told not to compile the Python of what the build alone needs, half of the time that it takes.
WHEEL := $(VENV)/wheel
$(WHEEL): $(BIN)/python $(SOURCES)
	rm -rf $@ $@.new
	PIP_NO_COMPILE=0 $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $@.new . \
	  -Ccmake.define.BELLHOP_WERROR=$(WERROR)
	mv $@.new $@

# What it needs with a set of extras, which is installed beside the build.  Of the demo's needs only
# what it imports is compiled, a third of the time that all takes, whatever says not to write bytecode.
$(VENV)/.needs-%: $(BIN)/python pyproject.toml
	$(BIN)/python .ci/requirements $* > $@.txt
	$(BIN)/python -m pip install --quiet $(if $(filter demo,$*),--no-compile) -r $@.txt
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -c "import jax, pennylane"
	@touch $@

# A stamp for each set of extras.
$(VENV)/.installed-%: $(BIN)/python $(SOURCES)
	$(MAKE) -j2 $(WHEEL) $(VENV)/.needs-$*
	$(BIN)/python -m pip install --quiet --force-reinstall --no-deps $(WHEEL)/*.whl
	@touch $@

# The CPU build, which weighs a twentieth of the build with CUDA: pip prefers 2.13.0+cpu to 2.13.0.
# Installed alone, since pip asks the index for each package of a command: where the index cannot be
# reached, each question costs eight seconds of retries.
TORCH := --retries 1 torch==2.13.0 --extra-index-url https://download.pytorch.org/whl/cpu

demo: $(VENV)/.installed-demo
	$(BIN)/python examples/h2_vqe.py

# CONTRIBUTING.md and doc/contributing/testing.md describe the tiers of tests.
PROPERTIES := matrix or subprocess or memory or hessian or large or long
QUICK := quick or not ($(PROPERTIES) or slow)
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# Small programs that run once: it costs more to optimize them than to run them.  test-rest has
# other cells of the same matrices, and compiles them as users do.
test durations: export JAX_DISABLE_MOST_OPTIMIZATIONS := 1
test: $(VENV)/.installed-dev
	$(PYTEST) -m "$(QUICK)"

# SHARE=2/3 runs a third of it.
SHARE =
test-rest: $(VENV)/.installed-dev
	$(PYTEST) $(if $(SHARE),--share $(SHARE)) -m "not long and not ($(QUICK))"

# What `needs` something that the two above do not install, in an environment that has all of it.
OPTIONAL := build/optional
optional-environment: $(WHEEL)
	$(MAKE) VENV=$(OPTIONAL) WHEEL=$(WHEEL) $(OPTIONAL)/.installed-dev
	$(OPTIONAL)/bin/python -m pip install --quiet $(TORCH)
	$(OPTIONAL)/bin/python -m pip install --quiet stim quimb cloudpickle numba \
	  equinox flax optimistix diffrax numpyro blackjax pyscf orbax-checkpoint tensorboardX wandb \
	  "$$(echo $(WHEEL)/*.whl)[kokkos]"
	$(OPTIONAL)/bin/python -m pip install --quiet --no-deps pennylane-qrack-cpu pyqrack-cpu

test-optional: optional-environment
	BELLHOP_TESTS_HAVE_ALL=1 $(MAKE) VENV=$(OPTIONAL) WHEEL=$(WHEEL) test-needs

test-needs: $(VENV)/.installed-dev
	$(PYTEST) -m "needs and not gpu and not long"

# One after the other, also under make -j.
test-full:
	$(MAKE) test
	$(MAKE) test-rest
	$(MAKE) test-optional

# With the GPU as JAX's default device, and with the CPU; without a GPU, on tests/standin.
test-gpu: $(VENV)/.installed-dev
	$(BIN)/python -m tests.standin $(if $(REQUIRED),--required) $(BIN)/python -m pytest -m gpu

# Stress and soak are among the long tests.
test-longest: $(VENV)/.installed-dev
	$(PYTEST) -m long

# Each ability deleted in a copy of the tree, and the rest checked; CI has two of them, others each day.
ABILITIES =
test-deletion: $(VENV)/.installed-dev
	$(BIN)/python -m tests.deletion $(ABILITIES)

test-long:
	$(MAKE) test-longest
	$(MAKE) test-deletion
	$(MAKE) test-tpu
	$(MAKE) sanitize
	$(MAKE) $(JAX_VERSIONS:%=test-with-jax-%)

# What compiles for a TPU without one.  JAX looks for a TPU wherever libtpu is installed, so it has an
# environment of its own.
TPU := build/tpu
test-tpu:
	$(MAKE) VENV=$(TPU) WHEEL=$(WHEEL) $(TPU)/.installed-dev
	$(TPU)/bin/python -m pip install --quiet libtpu
	JAX_PLATFORMS=cpu $(TPU)/bin/python -m pytest -m long tests/frontend/accelerate/test_compiled_for_tpus.py

# Both ends of the supported JAX and the middle, each in an environment of its own: the first release
# of 0.10 on the oldest Python that is here, and what is newest of the others on the newest.  SHARE=2/3
# runs a third of test-rest.
JAX_VERSIONS := 0.10.0 0.11 0.12
test-with-jax-%:
	$(MAKE) VENV=build/jax-$* PYTHON=$(if $(filter 0.10%,$*),$(firstword $(PYTHONS)),$(lastword \
	  $(PYTHONS))) WHEEL=build/jax-$*/wheel build/jax-$*/.installed-dev
	build/jax-$*/bin/python -m pip install --quiet "jax~=$*.0" "jaxlib~=$*.0"
	$(MAKE) VENV=build/jax-$* test
	$(MAKE) VENV=build/jax-$* test-rest

# What JAX's oldest release has not, found without the hour that test-with-jax-0.10.0 takes.
OLDEST := build/oldest-jax
oldest-environment: $(WHEEL)
	$(MAKE) VENV=$(OLDEST) WHEEL=$(WHEEL) $(OLDEST)/.installed-dev
	$(OLDEST)/bin/python -m pip install --quiet jax==0.10.0 jaxlib==0.10.0

test-oldest-jax: export JAX_DISABLE_MOST_OPTIMIZATIONS := 1
test-oldest-jax: oldest-environment
	$(OLDEST)/bin/python examples/h2_vqe.py
	$(OLDEST)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m "$(QUICK)" \
	  tests/frontend/_jax tests/frontend/compiled tests/frontend/transformations \
	  tests/frontend/accelerate/test_composition.py tests/integration/several_devices

# Differences of JAX's newest release, which PyPI has for newer Pythons than the oldest one's: an
# environment and a build of its own.
NEWEST := build/newest-jax
NEWEST_PYTHON = $(shell .ci/pythons 3.13)
newest-environment:
	@test -n "$(NEWEST_PYTHON)" || { echo "test-newest-jax needs Python 3.13, and there is none"; exit 1; }
	$(MAKE) VENV=$(NEWEST) PYTHON=$(NEWEST_PYTHON) WHEEL=$(NEWEST)/wheel $(NEWEST)/.installed-dev
	$(NEWEST)/bin/python -m pip install --quiet "jax~=$(lastword $(JAX_VERSIONS)).0"

test-newest-jax: export JAX_DISABLE_MOST_OPTIMIZATIONS := 1
test-newest-jax: newest-environment
	$(NEWEST)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m "$(QUICK)" \
	  tests/frontend/_jax tests/frontend/control_flow tests/frontend/transformations \
	  tests/frontend/callbacks/callback_types tests/frontend/compiled/test_eager_transformations.py

# What tests in other environments need, so that CI makes them beside tests of one process.  One after
# the other, as each uses the cores that are left.
environments:
	$(MAKE) optional-environment
	$(MAKE) oldest-environment
	$(if $(NEWEST_PYTHON),$(MAKE) newest-environment)
	$(MAKE) VENV=$(OPTIONAL) WHEEL=$(WHEEL) $(OPTIONAL)/.needs-docs

durations: $(VENV)/.installed-dev
	$(PYTEST) --record-durations -m "quick or not ($(PROPERTIES))"

stress soak: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m long --durations=0 -vs tests/integration/under_load/test_$@.py

MINUTES ?= 10
fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(X64),--x64 $(X64)) \
	  $(if $(AGAINST),--against $(AGAINST))

# Saved files run in processes of their own, without a sanitizer: XLA has none.
sanitize fuzz-hostile: export CMAKE ?= $(BIN)/cmake
CALLS ?= 100000
FILES ?= 2000
fuzz-hostile: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet cmake nanobind
	runtime/sanitize.sh address,undefined $(CURDIR)/$(BIN)/python \
	  -m tests.fuzz.hostile.handlers $(CALLS)
	$(BIN)/python -m tests.fuzz.hostile.files run $(FILES)

# Tests of memory are left out: under AddressSanitizer freed memory is kept.
CIRCUITS := tests/frontend/circuits/
BATCHES := $(addprefix $(CIRCUITS)circuit/test_,circuit_batches.py batch_derivatives.py \
  batches_of_control_flow.py)
REPEATED := $(addprefix $(CIRCUITS)recording/test_,repeated_runs.py dynamic_repeated_runs.py \
  mid_circuit.py mid_circuit_errors.py outcome_values.py)
sanitize: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet cmake nanobind
	runtime/sanitize.sh address,undefined $(CURDIR)/$(BIN)/python \
	  tests/runtime tests/frontend/callbacks tests/integration/under_load/test_many_in_flight.py \
	  tests/fuzz/hostile \
	  $(BATCHES) $(REPEATED) $(CIRCUITS)derivatives/test_shifts_in_dynamic_loops.py \
	  $(CIRCUITS)operations/test_mid_circuit_seeds.py \
	  -k "not leak and not soak and not large_results and not memory"
	runtime/sanitize.sh thread $(CURDIR)/$(BIN)/python \
	  tests/integration/under_load/test_many_in_flight.py tests/frontend/callbacks/exceptions/test_reentrance.py \
	  tests/frontend/callbacks/callback_types/test_tap.py tests/frontend/callbacks/callback_types/test_barrier.py \
	  tests/runtime/circuit/test_circuit_threads.py $(BATCHES) $(REPEATED) \
	  $(CIRCUITS)operations/test_mid_circuit_seeds.py -k "not leak and not memory"

# doc/_build/executed keeps executed pages for each state of the installed packages, so a second
# build executes only pages that changed.
docs: $(VENV)/.installed-docs
	$(BIN)/python -c "import torch" 2> /dev/null || $(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python doc/execute_pages.py --jobs $(WORKERS)
	rm -rf doc/_build/html doc/_build/doctrees
	$(BIN)/sphinx-build -j $(WORKERS) -W --keep-going -b html -d doc/_build/doctrees doc doc/_build/html
	$(BIN)/python doc/check_outputs.py
	$(BIN)/python doc/check_layout.py

# In the environment of test-optional, which has PyTorch.
docs-with-options:
	$(MAKE) VENV=$(OPTIONAL) WHEEL=$(WHEEL) docs

linkcheck: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -b linkcheck -D nb_execution_mode=off doc doc/_build/linkcheck

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.seams
	.ci/validate-schemas $(BIN)/check-jsonschema
	$(BIN)/clang-format --dry-run --Werror $(shell find runtime -name '*.cc' -o -name '*.h')
	$(BIN)/python -m pytest -q tests/runtime/test_includes.py tests/test_one_name_one_thing.py tests/plain_english
	$(BIN)/python -m pytest -qq --collect-only --check-durations -m "$(QUICK)" > /dev/null

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(shell find runtime -name '*.cc' -o -name '*.h')

# PARTIAL names a run that was interrupted (benchmarks/results/...-partial.json), to go on with it.
bench: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet stim
	$(BIN)/python -m benchmarks $(if $(PARTIAL),--resume $(PARTIAL))
	$(BIN)/python -m benchmarks.tables
	$(BIN)/python -m benchmarks.plots

# One for each interpreter that is here; PYTHONS="$(.ci/pythons 3.12)" for one.
wheels:
	rm -rf dist
	set -e; for python in $(PYTHONS); do .ci/wheel $$python; done

# For the Python of that machine; doc/contributing/testing.md says how it is used.
gpu-bundle:
	.ci/gpu-bundle $(shell .ci/pythons 3.12)

# All parts take most of a day; ONLY="lint quick" and SKIP="fuzz" choose, and the page says so.
release-check: MINUTES := $(if $(filter command line,$(origin MINUTES)),$(MINUTES),120)
release-check: $(VENV)/.installed-dev
	$(BIN)/python .ci/release/check.py --python $(BIN)/python --jax $(JAX_VERSIONS) \
	  --minutes $(MINUTES) --only $(ONLY) --skip $(SKIP) $(if $(PAGE),--out $(PAGE)) \
	  $(if $(RESUME),--resume) $(if $(SINCE),--since $(SINCE)) $(if $(MERGE),--merge) \
	  $(if $(LIST),--list) --add $(ADD)

clean:
	rm -rf $(VENV) build dist
