#!/usr/bin/env bash
# Proves that Detent builds and passes its tests on a Debian release: makes a bare system of that release in a folder,
# copies the committed files into it, and runs there what CI runs. Needs root, debootstrap, and 15 GB of disk.
#
#   scripts/test_debian_release.sh bookworm|trixie [FOLDER]
#
# A FOLDER is kept, and used again by the next run: packages and compiled files are there then. Without one, a temporary
# folder is made and removed.
set -euo pipefail

fail() {
  echo "test_debian_release.sh: $*" >&2
  exit 1
}

release=${1-}
case "$release" in
  bookworm | trixie) ;;
  -h | --help)
    sed -n '2,8s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  *) fail "unknown release \"$release\" (known: bookworm, trixie)" ;;
esac
[[ $# -le 2 ]] || fail "got $# arguments, expected one or two"
[[ $(id -u) -eq 0 ]] || fail "needs root, for chroot"
command -v debootstrap > /dev/null || fail "needs debootstrap: apt-get install debootstrap"
source=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)

# What is mounted inside is seen by this shell and its children only, so nothing can stay mounted.
if [[ -z ${DETENT_OWN_MOUNTS-} ]]; then
  DETENT_OWN_MOUNTS=1 exec unshare --mount "${BASH_SOURCE[0]}" "$@"
fi

if [[ $# -eq 2 ]]; then
  folder=$2
else
  folder=$(mktemp -d "${TMPDIR:-/tmp}/detent-$release.XXXXXX")
fi
mark=$folder/etc/detent-test-release
if [[ ! -e $mark ]]; then
  [[ ! -d $folder || -z $(ls -A "$folder") ]] || fail "$folder is neither empty nor a folder of this script"
  debootstrap --variant=minbase --include=ca-certificates "$release" "$folder"
  echo "$release" > "$mark"
fi
[[ $(< "$mark") == "$release" ]] || fail "$folder holds $(< "$mark"), not $release"

cp /etc/resolv.conf "$folder/etc/resolv.conf"
mount -t proc proc "$folder/proc"
mount --rbind /dev "$folder/dev"
mkdir -p "$folder/detent"
# The build folder stays, so that a second run compiles only what changed.
find "$folder/detent" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf -- {} +
git -C "$source" archive HEAD | tar -x --directory "$folder/detent"

status=0
env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
  chroot "$folder" /bin/bash -c 'cd /detent && .ci/run' || status=$?
if [[ $# -eq 1 ]]; then
  umount --recursive "$folder/proc" "$folder/dev"
  rm -rf --one-file-system -- "$folder"
fi
[[ $status -eq 0 ]] || fail "$release: failed with exit status $status"
echo "$release: all tests passed"
