#!/usr/bin/env bash
# Puts the table that `detent formats` prints between the markers of docs/formats.md.
#   scripts/update_formats_doc.sh PROGRAM
set -euo pipefail
program=${1:?the program, as build/bin/detent}
document=$(dirname "${BASH_SOURCE[0]}")/../docs/formats.md
table=$("$program" formats)
text=$(TABLE=$table awk '
  /^<!-- end of detent formats -->$/ { inside = 0 }
  !inside { print }
  /^<!-- detent formats -->$/ { inside = 1; print ENVIRON["TABLE"] }
' "$document")
printf '%s\n' "$text" > "$document"
