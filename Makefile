# Thin front door to CMake. `make help` lists what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help

BUILD_DIR ?= build
BUILD_TYPE ?= Release
PREFIX ?= /usr/local
WERROR ?= OFF
TORCH ?= ON
# all, or native: kernels for the instruction sets of this machine alone. Empty: as BUILD_DIR has it, or else all.
SIMD ?=
CMAKE_FLAGS ?=
CTEST_FLAGS ?=
# A file that includes libtorch takes 1.1 GB to compile: no more jobs than processors, nor than memory has room for.
JOBS ?= $(shell awk -v processors=$$(nproc) '/^MemAvailable/ { jobs = int($$2 / 1300000) } \
	END { if (jobs > processors) jobs = processors; if (jobs < 1) jobs = 1; print jobs }' /proc/meminfo)

configure = cmake -S . -B $(BUILD_DIR) -G Ninja -DCMAKE_BUILD_TYPE=$(BUILD_TYPE) -DCMAKE_INSTALL_PREFIX=$(PREFIX) \
	-DDETENT_WERROR=$(WERROR) -DDETENT_TORCH=$(TORCH) \
	$(if $(SIMD),-DDETENT_SIMD=$(SIMD)) \
	$$(command -v ccache > /dev/null && echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache) $(CMAKE_FLAGS)
build = cmake --build $(BUILD_DIR) --parallel $(JOBS)
# Lets ccache work with precompiled headers.
export CCACHE_SLOPPINESS ?= pch_defines,time_macros

FUZZ_SECONDS ?= 60
BASE ?= HEAD~1

.PHONY: help quickstart build test differential benchmarks build-times bench sanitize fuzz thread-sanitize tidy install wheel python-test deb clean packages test-packages deb-packages check-packages python-packages

help: ## list the targets and variables
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile
	@echo "variables: BUILD_DIR=$(BUILD_DIR) BUILD_TYPE=$(BUILD_TYPE) PREFIX=$(PREFIX) WERROR=$(WERROR) TORCH=$(TORCH) SIMD=$(SIMD)" \
	  "JOBS=$(JOBS) COUNT= SEED= ORT_DIR= CMAKE_FLAGS= CTEST_FLAGS= SKIP_PACKAGES="

# Without training, whose libtorch takes as long to install and compile as a third of the rest; a folder that has it
# keeps it.
quickstart: TORCH = $(if $(shell grep -s ^DETENT_TORCH:BOOL=ON $(BUILD_DIR)/CMakeCache.txt),ON,OFF)
quickstart: SIMD = $(if $(wildcard $(BUILD_DIR)/CMakeCache.txt),,native)
quickstart: first_build := $(if $(wildcard $(BUILD_DIR)/CMakeCache.txt),,-DDETENT_LARGE_UNITS=ON)
quickstart: packages ## install packages, build the program, run `detent quickstart`; TORCH=ON trains too
	$(configure) -DDETENT_DEVELOPER=OFF -DDETENT_INSTALL=ON $(first_build)
	$(build) --target detent_program $(if $(filter ON,$(TORCH)),detent_torch)
	$(BUILD_DIR)/bin/detent quickstart

build: packages ## build the program (BUILD_DIR/bin/detent) and the libraries
	$(configure) -DDETENT_DEVELOPER=OFF -DDETENT_INSTALL=ON
	$(build)

test: test-packages ## build everything and run all tests
	$(configure) -DDETENT_DEVELOPER=ON -DDETENT_INSTALL=ON
	$(build)
	ctest --test-dir $(BUILD_DIR) --output-on-failure --no-tests=error --no-label-summary --parallel $(JOBS) $(CTEST_FLAGS)

# A million graphs, before a release: make differential COUNT=1000000 SEED=2. The same for the same seed.
COUNT ?= 300
SEED ?= 1
FIRST ?= 0
ORT_DIR ?= $(BUILD_DIR)/onnxruntime

differential: test-packages ## run COUNT (300) random graphs from SEED (1) in all engines and in ONNX Runtime, and compare
	scripts/install_onnxruntime.sh $(ORT_DIR)
	$(configure) -DDETENT_DEVELOPER=ON -DDETENT_INSTALL=ON
	$(build) --target differential
	$(BUILD_DIR)/bin/differential --count $(COUNT) --seed $(SEED) --first $(FIRST) --onnxruntime $(ORT_DIR) \
	  --failures $(BUILD_DIR)/differential

benchmarks: test-packages ## build the benchmarks, without running them
	$(configure) -DDETENT_DEVELOPER=ON -DDETENT_INSTALL=ON
	$(build) --target benchmarks

build-times: ## print the files and headers that took longest to compile in BUILD_DIR
	scripts/print_build_times.py $(BUILD_DIR)

bench: test-packages ## build and run the benchmarks; results as JSON in BUILD_DIR/bench
	$(configure) -DDETENT_DEVELOPER=ON -DDETENT_INSTALL=ON
	$(build) --target run_benchmarks

# One build serves both: clang, ASan + UBSan, fuzz targets, and of tests and libraries what needs no libtorch (with
# SANITIZE_TORCH=ON all). What a check finds ends it.
sanitized = $(BUILD_DIR)/sanitize
SANITIZE_TORCH ?= OFF
FUZZ_TARGETS = idx safetensors checkpoint zip npy tar image packed graph \
  onnx mz decode format_text collector toml json csv gzip statistics language_config gguf \
  tokenizer chat_template
with_clang = -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++
configure_sanitized = cmake -S . -B $(sanitized) $(with_clang) \
  "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1" -DCMAKE_CXX_FLAGS=-fno-sanitize-recover=all -DDETENT_DEVELOPER=ON \
  -DDETENT_FUZZ=ON -DDETENT_TORCH=$(SANITIZE_TORCH) -DDETENT_SANITIZE=address,undefined \
  $$(command -v ccache > /dev/null && echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache) $(CMAKE_FLAGS)

sanitize: check-packages ## tests under AddressSanitizer and UBSan, built with clang in BUILD_DIR/sanitize
	$(configure_sanitized)
	cmake --build $(sanitized) --parallel $(JOBS)
	ctest --test-dir $(sanitized) --output-on-failure --no-tests=error --no-label-summary --parallel $(JOBS) -LE slow $(CTEST_FLAGS)

fuzz: check-packages ## run every libFuzzer target for FUZZ_SECONDS (60), built with clang in BUILD_DIR/sanitize
	$(configure_sanitized)
	cmake --build $(sanitized) --parallel $(JOBS) --target $(FUZZ_TARGETS:%=%_fuzz) onnx_seeds fuzz_seeds
	$(sanitized)/bin/fuzz_seeds $(sanitized)/corpus
	$(sanitized)/bin/onnx_seeds $(sanitized)/corpus/onnx
	set -e; for target in $(FUZZ_TARGETS); do \
	  mkdir -p $(sanitized)/corpus/$$target; \
	  $(sanitized)/bin/$${target}_fuzz -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
	    -artifact_prefix=$(sanitized)/$$target- $(sanitized)/corpus/$$target; done

thread-sanitize: check-packages ## tests that need no libtorch under ThreadSanitizer, built with clang in BUILD_DIR/thread
	cmake -S . -B $(BUILD_DIR)/thread $(with_clang) \
	  "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1" -DDETENT_DEVELOPER=ON -DDETENT_TORCH=OFF -DDETENT_SANITIZE=thread \
	  $$(command -v ccache > /dev/null && echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache) $(CMAKE_FLAGS)
	cmake --build $(BUILD_DIR)/thread --parallel $(JOBS)
	TSAN_OPTIONS=halt_on_error=1 ctest --test-dir $(BUILD_DIR)/thread --output-on-failure --no-tests=error \
	  --no-label-summary --parallel $(JOBS) -LE slow $(CTEST_FLAGS)

tidy: check-packages ## clang-tidy over the files that changed since BASE (HEAD~1); BASE= for all
	scripts/run_clang_tidy.sh $(BUILD_DIR)/sanitize $(BASE)

install: build ## install into PREFIX; as a user without the right to write there: make install PREFIX=~/.local
	cmake --install $(BUILD_DIR)

PYTHON ?= python3
python_environment = $(BUILD_DIR)/python-environment

wheel: python-packages ## build the Python module as a wheel for PYTHON (python3), in BUILD_DIR/wheel; auditwheel repairs it where it is
	$(PYTHON) -m venv $(python_environment)
	$(python_environment)/bin/pip wheel --quiet --no-deps --wheel-dir $(BUILD_DIR)/wheel .
	! command -v auditwheel > /dev/null || for wheel in $(BUILD_DIR)/wheel/detent-*-linux_*.whl; do \
	  auditwheel repair --wheel-dir $(BUILD_DIR)/wheel/repaired $$wheel; done

python-test: test-packages python-packages ## build the Python module and the program, and run its tests in an environment of their own
	$(PYTHON) -m venv $(python_environment)
	$(python_environment)/bin/pip install --quiet nanobind numpy pytest mypy onnx onnxruntime onnxscript jax pandas torch
	$(configure) -DDETENT_DEVELOPER=ON -DDETENT_PYTHON=ON -DPython_EXECUTABLE=$(abspath $(python_environment))/bin/python
	$(build) --target detent_program detent_python detent_python_stub
	ctest --test-dir $(BUILD_DIR) --output-on-failure --no-tests=error --no-label-summary -L python $(CTEST_FLAGS)

deb: SIMD = all
deb: deb-packages ## Debian packages of the program and its libraries, for this release of Debian, in BUILD_DIR/deb
	$(configure) -DDETENT_DEVELOPER=OFF -DDETENT_INSTALL=ON -DCMAKE_INSTALL_PREFIX=/usr
	$(build)
	cd $(BUILD_DIR) && cpack -B deb
	rm -rf $(BUILD_DIR)/deb/_CPack_Packages

clean: ## remove the build folder
	rm -rf -- $(BUILD_DIR)

without_torch = $(if $(filter OFF,$(TORCH)),--without-torch)

packages:
	@$(if $(SKIP_PACKAGES),,scripts/install_packages.sh --minimal $(without_torch))

test-packages:
	@$(if $(SKIP_PACKAGES),,scripts/install_packages.sh "" $(without_torch))

deb-packages:
	@$(if $(SKIP_PACKAGES),,scripts/install_packages.sh --deb $(without_torch))

python-packages:
	@$(if $(SKIP_PACKAGES),,scripts/install_packages.sh --python $(if $(filter wheel,$(MAKECMDGOALS)),--without-torch,$(without_torch)))

check-packages:
	@$(if $(SKIP_PACKAGES),,scripts/install_packages.sh --checks $(without_torch))
