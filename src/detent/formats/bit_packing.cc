#include "detent/formats/bit_packing.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "detent/core/error.h"

namespace detent {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int64_t kEight = 8;
constexpr int64_t kDigits = 5;
constexpr uint32_t kBytesOfBase3 = 243;  // 3^5

constexpr uint64_t low_bits(int count) { return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1; }

/// `pattern` bits set at the bottom of every lane of `lane` bits.
constexpr uint64_t in_lanes(int bits, int lane) {
  uint64_t mask = 0;
  for (int at = 0; at < 64; at += lane) mask |= low_bits(bits) << at;
  return mask;
}

/// Moves eight codes of at most eight bits between one a byte and next to each other: neighbours join in
/// lanes of 16, 32, then 64 bits.
class Octet {
 public:
  explicit Octet(int width) {
    for (int i = 0; i < 3; ++i) {
      const int lane = kLane << i;  // of one neighbour
      const int bits = width << i;
      shift_[i] = lane - bits;
      low_[i] = in_lanes(bits, 2 * lane);
      joined_[i] = in_lanes(2 * bits, 2 * lane);
    }
  }

  uint64_t join(uint64_t x) const {
    for (int i = 0; i < 3; ++i) x = (x & low_[i]) | ((x >> shift_[i]) & (joined_[i] & ~low_[i]));
    return x;
  }

  uint64_t split(uint64_t x) const {
    for (int i = 2; i >= 0; --i) {
      x &= joined_[i];
      x = (x & low_[i]) | ((x & ~low_[i]) << shift_[i]);
    }
    return x;
  }

 private:
  static constexpr int kLane = 8;
  int shift_[3];
  uint64_t low_[3];
  uint64_t joined_[3];
};

// Whole words are moved where the stream has room for them; what they hold beyond the octet is written again.
void pack_narrow(int width, const uint32_t* codes, int64_t count, uint8_t* bytes) {
  const Octet octet(width);
  int64_t left = (count * width + 7) / 8;
  for (; count > 0; codes += kEight, count -= kEight, bytes += width, left -= width) {
    uint8_t lanes[kEight] = {};
    if (count >= kEight) {
      for (int64_t i = 0; i < kEight; ++i) lanes[i] = static_cast<uint8_t>(codes[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) lanes[i] = static_cast<uint8_t>(codes[i]);
    }
    const uint64_t joined = octet.join(std::bit_cast<uint64_t>(lanes));
    if (left >= kEight) {
      std::memcpy(bytes, &joined, sizeof(joined));
    } else {
      std::memcpy(bytes, &joined, static_cast<size_t>(std::min<int64_t>(left, width)));
    }
  }
}

void unpack_narrow(int width, const uint8_t* bytes, int64_t count, uint32_t* codes) {
  const Octet octet(width);
  int64_t left = (count * width + 7) / 8;
  for (; count > 0; codes += kEight, count -= kEight, bytes += width, left -= width) {
    uint64_t joined = 0;
    if (left >= kEight) {
      std::memcpy(&joined, bytes, sizeof(joined));
    } else {
      std::memcpy(&joined, bytes, static_cast<size_t>(std::min<int64_t>(left, width)));
    }
    const auto lanes = std::bit_cast<std::array<uint8_t, kEight>>(octet.split(joined));
    if (count >= kEight) {
      std::copy_n(lanes.begin(), kEight, codes);
    } else {
      std::copy_n(lanes.begin(), count, codes);
    }
  }
}

void pack_wide(int width, const uint32_t* codes, int64_t count, uint8_t* bytes) {
  uint64_t pending = 0;
  int pending_bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    pending |= uint64_t{codes[i]} << pending_bits;
    for (pending_bits += width; pending_bits >= 8; pending_bits -= 8, pending >>= 8) {
      *bytes++ = static_cast<uint8_t>(pending);
    }
  }
  if (pending_bits > 0) *bytes = static_cast<uint8_t>(pending);
}

void unpack_wide(int width, const uint8_t* bytes, int64_t count, uint32_t* codes) {
  uint64_t pending = 0;
  int pending_bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    for (; pending_bits < width; pending_bits += 8) pending |= uint64_t{*bytes++} << pending_bits;
    codes[i] = static_cast<uint32_t>(pending & low_bits(width));
    pending >>= width;
    pending_bits -= width;
  }
}

void pack_base3(const uint32_t* codes, int64_t count, uint8_t* bytes) {
  for (; count > 0; codes += kDigits, count -= kDigits) {
    uint32_t byte = 0;
    for (int64_t i = std::min(count, kDigits) - 1; i >= 0; --i) byte = 3 * byte + codes[i] - (codes[i] >> 1);
    *bytes++ = static_cast<uint8_t>(byte);
  }
}

using FiveCodes = std::array<uint8_t, kDigits>;

constexpr std::array<FiveCodes, kBytesOfBase3> make_base3_codes() {
  std::array<FiveCodes, kBytesOfBase3> table{};
  for (uint32_t byte = 0; byte < kBytesOfBase3; ++byte) {
    uint32_t rest = byte;
    for (uint8_t& code : table[byte]) {
      code = static_cast<uint8_t>(rest % 3 == 2 ? 3 : rest % 3);
      rest /= 3;
    }
  }
  return table;
}

int64_t unpack_base3(const uint8_t* bytes, int64_t count, uint32_t* codes) {
  static constexpr std::array<FiveCodes, kBytesOfBase3> kTable = make_base3_codes();
  for (int64_t i = 0; i < count; i += kDigits) {
    const uint8_t byte = *bytes++;
    if (byte >= kBytesOfBase3) return i;
    std::copy_n(kTable[byte].begin(), std::min(count - i, kDigits), codes + i);
  }
  return count;
}

}  // namespace

int64_t packed_size(Packing packing, int width, int64_t count) {
  if (packing == Packing::kBase3) return count / kDigits + (count % kDigits != 0 ? 1 : 0);
  int64_t bits = 0;
  if (__builtin_mul_overflow(count, int64_t{width}, &bits)) {
    fail("packing: {} codes of {} bits are too many", count, width);
  }
  return bits / 8 + (bits % 8 != 0 ? 1 : 0);
}

void pack_codes(Packing packing, int width, const uint32_t* codes, int64_t count, uint8_t* bytes) {
  constexpr int kHalf = 16;
  if (packing == Packing::kBase3) {
    pack_base3(codes, count, bytes);
  } else if (width == 8) {
    for (int64_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(codes[i]);
  } else if (width < 8) {
    pack_narrow(width, codes, count, bytes);
  } else if (width == kHalf) {
    for (int64_t i = 0; i < count; ++i) {
      const auto half = static_cast<uint16_t>(codes[i]);
      std::memcpy(bytes + 2 * i, &half, sizeof(half));
    }
  } else {
    pack_wide(width, codes, count, bytes);
  }
}

int64_t unpack_codes(Packing packing, int width, const uint8_t* bytes, int64_t count, uint32_t* codes) {
  constexpr int kHalf = 16;
  if (packing == Packing::kBase3) return unpack_base3(bytes, count, codes);
  if (width == 8) {
    std::copy_n(bytes, count, codes);
  } else if (width < 8) {
    unpack_narrow(width, bytes, count, codes);
  } else if (width == kHalf) {
    for (int64_t i = 0; i < count; ++i) {
      uint16_t half = 0;
      std::memcpy(&half, bytes + 2 * i, sizeof(half));
      codes[i] = half;
    }
  } else {
    unpack_wide(width, bytes, count, codes);
  }
  return count;
}

}  // namespace detent
