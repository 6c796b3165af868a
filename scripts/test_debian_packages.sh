#!/usr/bin/env bash
# Proves that the packages of `make deb` can be installed on a Debian release, and work: builds them in one bare system of
# that release, and in another, which has nothing else, installs them by apt, runs the program, and compiles and runs a
# program in C. Both have the files that `make install` lays out. Needs root, debootstrap, and 10 GB of disk.
#
#   scripts/test_debian_packages.sh bookworm|trixie [FOLDER]
#
# In a FOLDER the system that builds is kept, and used again by the next run. Without one, a temporary folder is made and
# removed.
set -euo pipefail
scripts=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
# shellcheck source=scripts/debian_system.sh
source "$scripts/debian_system.sh"

begin "$@"
release=$1

builder=${2-$(mktemp -d "${TMPDIR:-/tmp}/detent-$release.XXXXXX")}
make_system "$release" "$builder"
copy_project "$scripts/.." "$builder"

# A bare system has no make yet.
run_in "$builder" /bin/bash -euc 'cd /detent
  scripts/install_packages.sh --deb
  make deb SKIP_PACKAGES=1
  rm -rf /stage
  DESTDIR=/stage cmake --install build > /dev/null'

bare=$(mktemp -d "${TMPDIR:-/tmp}/detent-$release-bare.XXXXXX")
make_system "$release" "$bare"
mkdir "$bare/packages"
cp "$builder"/detent/build/deb/*.deb "$bare/packages"
cp "$scripts/../examples/run_quantized.c" "$bare/root"
run_in "$bare" /bin/bash -euc 'cd /root
  apt-get -qq update
  apt-get -qq install --no-install-recommends /packages/detent_*.deb
  if dpkg-query --list "libtorch*" | grep -q "^ii"; then echo "detent brings libtorch" >&2; exit 1; fi
  ch version
  detent quickstart
  detent quantize digits_cnn digits --load detent_quickstart/float.pt --project packed > /dev/null
  if detent train toy toy_tiny 2> no_training; then echo "trains without detent-training" >&2; exit 1; fi
  grep -q "install the Debian package detent-training" no_training
  apt-get -qq install --no-install-recommends /packages/detent-training_*.deb
  detent train toy toy_tiny --max-epochs 1
  apt-get -qq install --no-install-recommends /packages/*.deb gcc libc6-dev pkg-config
  gcc -O2 run_quantized.c -o run_quantized $(pkg-config --cflags --libs detent_engine)
  ./run_quantized detent_output/packed/software/quantize/graph_module.mz'

diff <(cd "$builder/stage" && find . ! -type d | sort) \
  <(for package in "$bare"/packages/*.deb; do dpkg-deb --fsys-tarfile "$package" | tar -t; done | grep -v '/$' | sort) ||
  fail "$release: packages have other files than make install"
remove_system "$bare"
[[ $# -eq 2 ]] || remove_system "$builder"
echo "$release: packages install, and work"
