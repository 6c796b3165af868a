#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace detent {

/// XXH64 of libxxhash, for all stored fingerprints and checksums except those that a file format prescribes
/// (files/checksums.h). It detects accidents, not attacks.
uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t xxh64(std::string_view text, uint64_t seed = 0);

}  // namespace detent
