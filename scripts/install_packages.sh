#!/usr/bin/env bash
# Installs the Debian packages that Detent is built from. Does nothing, quickly, where all are there already.
#
#   scripts/install_packages.sh             everything: building, testing, benchmarking
#   scripts/install_packages.sh --minimal   only what building and running the program needs
#   scripts/install_packages.sh --deb       that, and what makes Debian packages of it
#   scripts/install_packages.sh --checks    everything, and clang for sanitizers, fuzzing and clang-tidy
#   scripts/install_packages.sh --python    what the Python module is built from, but for what comes from Python's index
#
# With --without-torch as a second argument, without libtorch, which training needs: make TORCH=OFF.
set -euo pipefail

fail() {
  echo "install_packages.sh: $*" >&2
  exit 1
}

build_packages=(
  g++ cmake ninja-build ccache git make
  libfmt-dev libspdlog-dev libhwy-dev libtomlplusplus-dev nlohmann-json3-dev libcli11-dev zlib1g-dev libre2-dev
  libjpeg-dev libpng-dev libcurl4-openssl-dev libssl-dev libxxhash-dev libonnx-dev libprotobuf-dev
)
torch_packages=(
  libtorch-dev
  # libtorch depends on no more than the reference BLAS, with which training is 4 to 22 times slower. The OpenMP
  # build shares libtorch's threads; the pthread build would start as many again.
  libopenblas0-openmp
  # Headers of the transport under libtorch's process groups; libtorch-dev does not depend on them.
  libgloo-dev
)
test_packages=(
  graphviz chromium pkg-config libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev
  # The tests compare numbers and files with those of the same PyTorch in Python.
  python3-torch
  # Designs in Verilog are simulated and synthesized.
  verilator iverilog yosys
)

case "${2-}" in
  --without-torch) ;;
  "") build_packages+=("${torch_packages[@]}") ;;
  *) fail "unknown argument \"$2\" (known: --without-torch)" ;;
esac
[[ $# -le 2 ]] || fail "got $# arguments, expected at most two"

# ONNX Runtime, which results are compared with, comes by npm. Other distributions of node have npm within.
command -v node > /dev/null || test_packages+=(nodejs)
command -v npm > /dev/null || test_packages+=(npm)

deb_packages=(dpkg-dev file)
python_packages=(python3-dev python3-venv)
check_packages=(clang clang-tidy libclang-rt-dev)

case "${1-}" in
  "") packages=("${build_packages[@]}" "${test_packages[@]}") ;;
  --minimal) packages=("${build_packages[@]}") ;;
  --deb) packages=("${build_packages[@]}" "${deb_packages[@]}") ;;
  --python) packages=("${build_packages[@]}" "${python_packages[@]}") ;;
  --checks) packages=("${build_packages[@]}" "${test_packages[@]}" "${check_packages[@]}") ;;
  -h | --help)
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  *) fail "unknown argument \"$1\" (known: --minimal, --deb, --checks, --python, --help)" ;;
esac

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  fail "this is no Debian system; install the equivalents of: ${packages[*]}"
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2> /dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then
  echo "all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo > /dev/null ||
    fail "neither root nor sudo; as root, run: apt-get install --no-install-recommends ${missing[*]}"
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3)
"${apt[@]}" update --quiet
"${apt[@]}" install --quiet --yes --no-install-recommends "${missing[@]}"
