#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "detent/core/tensor.h"

namespace detent {

/// How codes become bytes.
/// bits: code i takes the bits [i * width, (i + 1) * width) of the stream; bit k of the stream is bit k % 8
/// of byte k / 8. Spare bits of the last byte are 0. base3: five codes of two bits in a byte, sum of digit_k
/// * 3^k, where the digits 0, 1, 2 stand for the codes 0, 1, 3 (0, +1, -1 in two's complement). Missing
/// digits of the last byte are 0. 1.6 bits a value.
enum class Packing { kBits, kBase3 };
constexpr std::array<const char*, 2> enum_names(Packing) { return {"bits", "base3"}; }

/// Ranges of codes are cut at multiples of this: then each begins at a byte, whatever the packing.
constexpr int64_t kPackingBlock = 40;

/// Bytes that `count` codes of `width` bits take. Throws Error when int64 cannot hold the number of bits.
int64_t packed_size(Packing packing, int width, int64_t count);

/// Writes packed_size bytes; 1 <= width <= 32, and no code has bits above `width`.
void pack_codes(Packing packing, int width, const uint32_t* codes, int64_t count, uint8_t* bytes);

/// The inverse. Returns count, or the index of the first code of a byte that base3 never writes.
int64_t unpack_codes(Packing packing, int width, const uint8_t* bytes, int64_t count, uint32_t* codes);

}  // namespace detent
