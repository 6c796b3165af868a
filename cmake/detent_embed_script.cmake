# Run by detent_embed with -Dinput, -Doutput and -Dsymbol.
file(READ ${input} hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
string(REPEAT "0x..," 20 row)
string(REGEX REPLACE "${row}" "\\0\n" bytes "${bytes}")
cmake_path(GET input FILENAME name)
file(WRITE ${output} "// Made from ${name} by detent_embed.
#include <cstddef>
#include <span>

namespace detent {
namespace {

constexpr unsigned char kBytes[] = {
${bytes}
};

}  // namespace

std::span<const std::byte> ${symbol}();

std::span<const std::byte> ${symbol}() { return std::as_bytes(std::span(kBytes)); }

}  // namespace detent
")
