#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace detent {

/// XXH64 (Y. Collet, https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md): 64 bits that are the same in
/// every build, for fingerprints that are stored. It tells accidents, not attacks.
uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t xxh64(std::string_view text, uint64_t seed = 0);

}  // namespace detent
