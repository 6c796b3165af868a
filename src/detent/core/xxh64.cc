#include "detent/core/xxh64.h"

// Compiled in, so that nothing has to be installed beside the program.
#define XXH_INLINE_ALL
#define XXH_NO_XXH3
#include <xxhash.h>

namespace detent {

uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}

uint64_t xxh64(std::string_view text, uint64_t seed) { return XXH64(text.data(), text.size(), seed); }

}  // namespace detent
