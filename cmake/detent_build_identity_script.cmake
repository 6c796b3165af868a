# Run by detent_build_identity with -Dfolder, -Doutput and -Dtoolchain.
file(GLOB_RECURSE sources RELATIVE ${folder} ${folder}/*.cc ${folder}/*.h)
list(FILTER sources EXCLUDE REGEX "_test\\.(cc|h)$")
list(SORT sources)
set(digests "${toolchain}")
foreach(source IN LISTS sources)
  file(SHA256 ${folder}/${source} digest)
  string(APPEND digests "${source} ${digest}\n")
endforeach()
string(SHA256 identity "${digests}")
file(WRITE ${output} "// Made by detent_build_identity.
#include \"detent/cli/build_identity.h\"

namespace detent {

namespace {
constexpr char kText[] = \"detent build ${identity}\";
constexpr int kPrefix = sizeof(\"detent build \") - 1;
}  // namespace

const char* build_identity() { return kText + kPrefix; }

}  // namespace detent
")
