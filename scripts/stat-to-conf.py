#!/bin/sh
# The tutorial's name for `detent stat-to-conf`; runs the program beside this file, else the one in PATH. Not Python.
here=$(dirname -- "$(readlink -f -- "$0")")
if [ -x "$here/detent" ]; then
  exec "$here/detent" stat-to-conf "$@"
fi
exec detent stat-to-conf "$@"
