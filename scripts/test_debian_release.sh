#!/usr/bin/env bash
# Proves that Detent builds and passes its tests on a Debian release: makes a bare system of that release in a folder,
# copies the committed files into it, and runs there what CI runs. Needs root, debootstrap, and 15 GB of disk.
#
#   scripts/test_debian_release.sh bookworm|trixie [FOLDER]
#
# A FOLDER is kept, and used again by the next run: packages and compiled files are there then. Without one, a temporary
# folder is made and removed.
set -euo pipefail
scripts=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
# shellcheck source=scripts/debian_system.sh
source "$scripts/debian_system.sh"

begin "$@"
release=$1

folder=${2-$(mktemp -d "${TMPDIR:-/tmp}/detent-$release.XXXXXX")}
make_system "$release" "$folder"
copy_project "$scripts/.." "$folder"
status=0
run_in "$folder" /bin/bash -c 'cd /detent && .ci/run' || status=$?
[[ $# -eq 2 ]] || remove_system "$folder"
[[ $status -eq 0 ]] || fail "$release: failed with exit status $status"
echo "$release: all tests passed"
