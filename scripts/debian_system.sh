# Bare Debian systems in folders, for the scripts that try Detent in them; to be sourced. Needs root and debootstrap.

fail() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# begin "$@": the start of a script that takes RELEASE [FOLDER]. --help prints the comment at its head. Then the script is
# started again where what it mounts is seen by it and its children only, so that nothing can stay mounted.
begin() {
  case "${1-}" in
    bookworm | trixie) ;;
    -h | --help)
      sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *) fail "unknown release \"${1-}\" (known: bookworm, trixie)" ;;
  esac
  [[ $# -le 2 ]] || fail "got $# arguments, expected one or two"
  [[ $(id -u) -eq 0 ]] || fail "needs root, for chroot"
  command -v debootstrap > /dev/null || fail "needs debootstrap: apt-get install debootstrap"
  [[ -n ${DETENT_OWN_MOUNTS-} ]] || DETENT_OWN_MOUNTS=1 exec unshare --mount "$0" "$@"
}

# make_system RELEASE FOLDER: FOLDER is empty, missing, or was made by this before.
make_system() {
  local release=$1 folder=$2 mark=$2/etc/detent-test-release
  if [[ ! -e $mark ]]; then
    [[ ! -d $folder || -z $(ls -A "$folder") ]] || fail "$folder is neither empty nor a folder of this script"
    debootstrap --variant=minbase --include=ca-certificates "$release" "$folder"
    echo "$release" > "$mark"
  fi
  [[ $(< "$mark") == "$release" ]] || fail "$folder holds $(< "$mark"), not $release"
  cp /etc/resolv.conf "$folder/etc/resolv.conf"
  mount -t proc proc "$folder/proc"
  mount --rbind /dev "$folder/dev"
}

# copy_project SOURCE FOLDER: the committed files and their history to FOLDER/detent. A build folder there stays, so that
# a second run compiles only what changed.
copy_project() {
  local source=$1 project=$2/detent
  mkdir -p "$project"
  find "$project" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf -- {} +
  git -C "$project" -c init.defaultBranch=main init --quiet
  git -C "$project" fetch --quiet "$source" HEAD
  git -C "$project" checkout --quiet FETCH_HEAD
}

# run_in FOLDER COMMAND...
run_in() {
  local folder=$1
  shift
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive chroot "$folder" "$@"
}

# remove_system FOLDER
remove_system() {
  umount --recursive "$1/proc" "$1/dev"
  rm -rf --one-file-system -- "$1"
}
