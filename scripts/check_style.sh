#!/usr/bin/env bash
# Checks the rules of CONTRIBUTING.md that a search can check.
#   scripts/check_style.sh [ROOT]
# One line a violation, as file:line: message; exit status 1 when there is any.
set -euo pipefail
root=${1:-$(dirname "${BASH_SOURCE[0]}")/..}
cd "$root"

folders=()
for folder in src tests examples bench scripts cmake; do
  if [[ -d $folder ]]; then folders+=("$folder"); fi
done
[[ -d src/detent ]] || { echo "check_style.sh: no folder src/detent in $PWD" >&2 && exit 1; }
failed=0

# Folders whose name does not say what is in them.
while IFS= read -r folder; do
  echo "$folder: name the folder after what is in it"
  failed=1
done < <(find "${folders[@]}" -type d \( -iname 'util*' -o -iname 'misc*' -o -iname 'common*' -o -iname 'helper*' \))

# Small files, which cost more to find than to scroll past.
most_small=120
small=$(find "${folders[@]}" -type f \( -name '*.cc' -o -name '*.h' \) ! -name '*_test*' -exec wc -l {} + |
  awk '$2 != "total" && $1 < 40 { ++count } END { print count + 0 }')
if [[ $small -gt $most_small ]]; then
  echo "${folders[*]}: $small files under 40 lines, at most $most_small: put what belongs together in one"
  failed=1
fi

# The names that format structs give themselves, and those of the table of minifloats, as a|b|c.
format_names=$(find src/detent/formats -name '*.h' -exec cat {} + 2> /dev/null |
  sed -n -e 's/.*kName *= *"\([a-z0-9_]*\)".*/\1/p' -e 's/^ *{"\([a-z0-9_]*\)", *[0-9].*ReservedCodes.*/\1/p' |
  sort -u | paste -s -d '|')

# The structs of formats, as A|B|C.
format_types=$(find src/detent/formats -name '*.h' -exec cat {} + 2> /dev/null |
  awk '/^struct [A-Za-z0-9]+/ { name = $2 } / kName *=/ && name != "" { print name; name = "" }' | sort -u | paste -s -d '|')

# The names that evaluators are listed under, which is those of all operators but `placeholder`.
operator_names=$(find src/detent/operators -name 'autograd*.cc' -exec cat {} + 2> /dev/null |
  grep -oE '\{"[a-z0-9_]+", *[a-z[]' | sed 's/{"\([a-z0-9_]*\)".*/\1/' | sort -u | paste -s -d '|')

files=()
while IFS= read -r file; do files+=("$file"); done < <(
  find "${folders[@]}" -type f \( -name '*.cc' -o -name '*.h' -o -name '*.sh' -o -name '*.cmake' -o -name CMakeLists.txt \) | sort)

# Types of one namespace, by their names: of two of the same name the linker keeps one destructor for both.
awk '
  FNR == 1 { anonymous = 0; namespace = "" }
  /^namespace \{/ { anonymous = 1 }
  /^}  \/\/ namespace$/ { anonymous = 0 }
  /^namespace [a-z_:]+ \{/ { namespace = $2 }
  !anonymous && namespace ~ /^detent/ && /^(struct|class|enum class) [A-Za-z0-9_]+ *(final *)?(:[^:].*)?\{/ {
    sub(/^(struct|class|enum class) /, "")
    match($0, /^[A-Za-z0-9_]+/)
    name = namespace "::" substr($0, 1, RLENGTH)
    if (name in places) {
      print FILENAME ":" FNR ": a second type " name ", after " places[name] ": the linker takes them for one"
      failed = 1
    }
    places[name] = FILENAME ":" FNR
  }
  END { exit failed }
' "${files[@]}" || failed=1

awk -v format_names="$format_names" -v format_types="$format_types" -v operator_names="$operator_names" '
  function report(message) {
    print FILENAME ":" FNR ": " message
    failed = 1
  }
  FNR == 1 {
    is_test = FILENAME ~ /_test\.(cc|h|sh)$/
    in_detent = FILENAME ~ /^src\/detent\//
    in_formats = FILENAME ~ /^src\/detent\/formats\//
    declares_operators = FILENAME ~ /^src\/detent\/(operators\/([a-z0-9_]+\/)?(schema|autograd|onnx)|models\/|onnx\/)/
    is_header = FILENAME ~ /\.h$/ && FILENAME !~ /-inl\.h$/
    uses_torch = FILENAME ~ /^src\/detent\/(autograd\/|operators\/autograd|passes\/|training\/|cli\/torch\/)/
  }
  FNR == 801 { report("more than 800 lines") }

  # A fragment that only its declaration completes.
  /^[ \t]*\/\/\/? Of [a-z]/ || (/^[ \t]*\/\/\/? (What|Those) / && !in_comment) {
    report("begin the comment with the thing that it describes, as \"Scale of\", not with \"What\", \"Those\" or \"Of\"")
  }
  { in_comment = /^[ \t]*\/\// }

  # Adjacent includes of the project, in the order of bytes; kernels (-inl.h) build on those before them.
  {
    included = match($0, /^#include "detent\/[^"]*/) ? substr($0, 10, RLENGTH - 9) : ""
    if (included ~ /-inl\.h$/) included = ""
    if (included != "" && included < included_before) report("sort includes: this one before " included_before "\"")
    included_before = included
  }

  # Vector code and libtorch stay behind the headers: they cost every includer seconds and a dependency.
  in_detent && is_header && /^[ \t]*#[ \t]*include[ \t]*[<"]hwy\// { report("no Highway in a header other than -inl.h") }
  in_detent && is_header && !uses_torch && /^[ \t]*#[ \t]*include[ \t]*[<"](torch|ATen|c10|caffe2)\// {
    report("no libtorch in a header of this layer")
  }
  in_detent && is_header && /^[ \t]*#[ \t]*include[ \t]*<torch\/(torch|all)\.h>/ {
    report("no torch/torch.h in a header: include ATen/core/Tensor.h and what else is needed")
  }

  # What a format does is decided by its type, inside formats/; nobody else asks for its name.
  in_detent && !in_formats && !is_test && format_names != "" &&
  ($0 ~ ("[=!]=[ \t]*\"(" format_names ")\"") || $0 ~ ("\"(" format_names ")\"[ \t]*[=!]=")) {
    report("no comparison with the name of a format outside formats/")
  }

  # Nor for its type: formats/verbs.h answers. Importers build a few from what files say.
  in_detent && !in_formats && !is_test && FILENAME !~ /for_test/ && format_types != "" {
    if ($0 ~ ("<(" format_types ")>")) report("no format by its type outside formats/: ask formats/verbs.h")
    if ($0 ~ ("(^|[^A-Za-z_\"])(" format_types ")(&|::|\\{| [a-z_]+[;={])") && ++built_formats > 10)
      report("more than 10 formats by their types outside formats/: ask formats/verbs.h")
  }

  # What an operator does is declared with it; passes and executors ask for traits (graph/traits.h): no `op` is
  # compared with, searched for or looked up among names, and no list of names is made to do so.
  # Models in other formats consist of such names: onnx/ translates them.
  /enum_names\(/ { in_names = 1 }
  in_detent && !declares_operators && !is_test {
    named = "\"(" operator_names "|placeholder)\""
    compared = $0 ~ /(^|[^a-z_])op[ \t]*[=!]=[ \t]*"/ || $0 ~ /"[ \t]*[=!]=[ \t]*([a-z_]+(\([^)]*\))?(\.|->))*op([^a-z_(]|$)/
    searched = $0 ~ /(\.|->)op\.(starts_with|ends_with|find|rfind|contains|compare|substr)\(/
    looked_up = $0 ~ /(find|count|contains|binary_search)\(([a-zA-Z_]+, *)?[a-z_]+(\.|->)op\)/
    listed = operator_names != "" && $0 ~ (named ", *" named) && $0 !~ /return \{/ && !in_names
    if (compared || searched || looked_up || listed) {
      report("no comparison with the name of an operator: ask for a trait (graph/traits.h)")
    }
  }
  /^}/ { in_names = 0 }
  END { exit failed }
' "${files[@]}" || failed=1
exit "$failed"
