#include "detent/engine/packed_sums.h"

#include <array>
#include <limits>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr int kDigits = 5;
constexpr int kTernaryCodes = 243;  // 3^5

/// The first digit of a byte of five, 0 to 2, as kernels find it: the high bits of
/// (byte + (byte + 253 + 1) / 2 + 1) / 2, less 1. Three times the byte, modulo 256, has the next.
constexpr int first_digit(uint8_t byte) {
  const int half = (byte + kTernaryOffset + 1) / 2;
  return (byte + half + 1) / 2 / 64 - 1;
}

constexpr int digit(uint8_t byte, int step) {
  for (int i = 0; i < step; ++i) byte = static_cast<uint8_t>(3 * byte);
  return first_digit(byte);
}

/// The byte for each sum of digit_i 3^i; found by trying, since not all bytes give what their fraction
/// byte / 256 has in base 3.
constexpr std::array<int, kTernaryCodes> ternary_bytes() {
  std::array<int, kTernaryCodes> bytes{};
  bytes.fill(-1);
  for (int byte = 255; byte >= 0; --byte) {
    int code = 0;
    for (int i = kDigits; i-- > 0;) code = 3 * code + digit(static_cast<uint8_t>(byte), i);
    bytes[static_cast<size_t>(code)] = byte;
  }
  return bytes;
}

constexpr auto kTernaryBytes = ternary_bytes();
static_assert([] {
  for (const int byte : kTernaryBytes) {
    if (byte < 0) return false;
  }
  return true;
}());

/// Half of the number of weights.
int offset_of(WeightPacking packing) { return 128 >> packing_shape(packing).shift; }

}  // namespace

WeightPacking fastest_packing(int32_t least, int32_t most, int64_t outputs, int64_t inputs) {
  // The sums that kernels form of 255 times weights times 2^shift.
  if (inputs > std::numeric_limits<int32_t>::max() / (255 * 128)) return WeightPacking::kBytes;
  // Five weights in a byte take twice as long to unpack as four: that pays where all threads wait for memory.
  constexpr int64_t kCacheBytes = 32 << 20;
  if (least >= -1 && most <= 1 && outputs * inputs / 4 > kCacheBytes) return WeightPacking::kTernary;
  for (const auto packing : {WeightPacking::kTwo, WeightPacking::kThree, WeightPacking::kFour}) {
    if (least >= -offset_of(packing) && most < offset_of(packing)) return packing;
  }
  return WeightPacking::kBytes;
}

/// Where the code of a step lies in three vectors of bytes: two whole ones in each, and of the last two steps
/// the higher bits in the first two, the lowest in the third.
struct ThreeBits {
  int vector, bit;      // of the code, or of its higher bits
  int lowest_bit = -1;  // in the third vector; -1: with the others
};
constexpr ThreeBits three_bits(int step) {
  if (step < 6) return {step / 2, step % 2 == 0 ? 5 : 2};
  return {step - 6, 0, step - 6};
}

void narrow(WeightPacking packing, const int8_t* weights, int64_t count, int8_t* packed) {
  const int steps = packing_shape(packing).steps;
  const auto put = [&](int64_t at, unsigned bits) {
    packed[at] = static_cast<int8_t>(static_cast<unsigned>(packed[at]) | bits);
  };
  for (int64_t i = 0; i < count; ++i) {
    if (packing == WeightPacking::kTernary) {
      int code = 0;
      for (int s = steps; s-- > 0;) code = 3 * code + weights[s * count + i] + 1;
      packed[i] = static_cast<int8_t>(kTernaryBytes[static_cast<size_t>(code)]);
      continue;
    }
    for (int s = 0; s < steps; ++s) {
      const auto code = static_cast<unsigned>(weights[s * count + i] + offset_of(packing));
      if (packing == WeightPacking::kThree) {
        const ThreeBits place = three_bits(s);
        const bool is_split = place.lowest_bit >= 0;
        put(place.vector * count + i, (is_split ? code >> 1U : code) << place.bit);
        if (is_split) put(2 * count + i, (code & 1U) << place.lowest_bit);
      } else {
        put(i, code << (s * 8 / steps));
      }
    }
  }
}

int32_t widened(WeightPacking packing, const int8_t* packed, int64_t count, int step, int64_t position) {
  const auto byte = [&](int64_t vector) {
    return static_cast<unsigned>(static_cast<uint8_t>(packed[vector * count + position]));
  };
  const int offset = offset_of(packing);
  switch (packing) {
    case WeightPacking::kBytes:
      return packed[position];
    case WeightPacking::kFour:
      return static_cast<int32_t>(byte(0) >> (4 * step) & 15U) - offset;
    case WeightPacking::kThree: {
      const ThreeBits place = three_bits(step);
      const unsigned bits = byte(place.vector) >> place.bit;
      const unsigned code =
          place.lowest_bit < 0 ? bits & 7U : (bits & 3U) << 1U | (byte(2) >> place.lowest_bit & 1U);
      return static_cast<int32_t>(code) - offset;
    }
    case WeightPacking::kTwo:
      return static_cast<int32_t>(byte(0) >> (2 * step) & 3U) - offset;
    case WeightPacking::kTernary:
      return digit(static_cast<uint8_t>(byte(0)), step) - 1;
    case WeightPacking::kBitPlanes:
    case WeightPacking::kSigns:
      break;
  }
  DETENT_CHECK(false, "packing {}", static_cast<int>(packing));
  return 0;
}

}  // namespace detent
