# Thin front door to CMake. `make help` lists what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help

BUILD_DIR ?= build
BUILD_TYPE ?= Release
PREFIX ?= /usr/local
WERROR ?= OFF
TORCH ?= ON
CMAKE_FLAGS ?=
CTEST_FLAGS ?=
# A file that includes libtorch takes 1.1 GB to compile: no more jobs than processors, nor than memory has room for.
JOBS ?= $(shell awk -v processors=$$(nproc) '/^MemAvailable/ { jobs = int($$2 / 1300000) } \
	END { if (jobs > processors) jobs = processors; if (jobs < 1) jobs = 1; print jobs }' /proc/meminfo)

configure = cmake -S . -B $(BUILD_DIR) -G Ninja -DCMAKE_BUILD_TYPE=$(BUILD_TYPE) -DCMAKE_INSTALL_PREFIX=$(PREFIX) \
	-DDETENT_WERROR=$(WERROR) -DDETENT_TORCH=$(TORCH) \
	$$(command -v ccache > /dev/null && echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache) $(CMAKE_FLAGS)
build = cmake --build $(BUILD_DIR) --parallel $(JOBS)
# Lets ccache work with precompiled headers.
export CCACHE_SLOPPINESS ?= pch_defines,time_macros

FUZZ_TARGETS = idx safetensors checkpoint zip npy tar image packed graph graph_torch onnx decode format_text collector
FUZZ_SECONDS ?= 60

.PHONY: help quickstart build test bench fuzz install clean packages test-packages

help: ## list the targets and variables
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile
	@echo "variables: BUILD_DIR=$(BUILD_DIR) BUILD_TYPE=$(BUILD_TYPE) PREFIX=$(PREFIX) WERROR=$(WERROR) TORCH=$(TORCH)" \
	  "JOBS=$(JOBS) CMAKE_FLAGS= CTEST_FLAGS= SKIP_PACKAGES="

quickstart: build ## install packages, build the program, run `detent quickstart`
	$(BUILD_DIR)/bin/detent quickstart

build: packages ## build the program (BUILD_DIR/bin/detent) and the libraries
	$(configure) -DDETENT_DEVELOPER=OFF -DDETENT_INSTALL=ON
	$(build)

test: test-packages ## build everything and run all tests
	$(configure) -DDETENT_DEVELOPER=ON -DDETENT_INSTALL=ON
	$(build)
	ctest --test-dir $(BUILD_DIR) --output-on-failure --no-tests=error --no-label-summary --parallel $(JOBS) $(CTEST_FLAGS)

bench: test-packages ## build and run the benchmarks; results as JSON in BUILD_DIR/bench
	$(configure) -DDETENT_DEVELOPER=ON -DDETENT_INSTALL=ON
	$(build) --target run_benchmarks

fuzz: test-packages ## run every libFuzzer target for FUZZ_SECONDS (60), built with clang in BUILD_DIR/fuzz
	@command -v clang++ > /dev/null || { echo "make fuzz needs clang: apt-get install clang libclang-rt-14-dev"; exit 1; }
	cmake -S . -B $(BUILD_DIR)/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++ \
	  -DCMAKE_CXX_FLAGS=-fno-sanitize-recover=all \
	  -DDETENT_FUZZ=ON -DDETENT_TORCH=$(TORCH) -DDETENT_SANITIZE=address,undefined,fuzzer-no-link $(CMAKE_FLAGS)
	cmake --build $(BUILD_DIR)/fuzz --parallel $(JOBS) --target $(FUZZ_TARGETS:%=%_fuzz) onnx_seeds
	$$(find $(BUILD_DIR)/fuzz -type f -name onnx_seeds -executable | head -n 1) $(BUILD_DIR)/fuzz/corpus/onnx
	set -e; for target in $(FUZZ_TARGETS); do \
	  mkdir -p $(BUILD_DIR)/fuzz/corpus/$$target; \
	  $$(find $(BUILD_DIR)/fuzz -type f -name $${target}_fuzz -executable | head -n 1) \
	    -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 $(BUILD_DIR)/fuzz/corpus/$$target; done

install: build ## install into PREFIX; as a user without the right to write there: make install PREFIX=~/.local
	cmake --install $(BUILD_DIR)

clean: ## remove the build folder
	rm -rf -- $(BUILD_DIR)

packages:
	@$(if $(SKIP_PACKAGES),,scripts/install_packages.sh --minimal)

test-packages:
	@$(if $(SKIP_PACKAGES),,scripts/install_packages.sh)
