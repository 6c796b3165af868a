#include "detent/formats/packing/encode.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "detent/core/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/packing/bit_packing.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/formats/packing/bit_unpacking-inl.h"

#ifndef DETENT_FORMATS_BIT_PACKING_TABLES_
#define DETENT_FORMATS_BIT_PACKING_TABLES_
namespace detent::packing_detail {

static_assert(std::endian::native == std::endian::little);

/// Codes that are packed at a time, through buffers on the stack.
constexpr int64_t kChunk = 16 * kPackingBlock;
constexpr int kWordBits = 64;
constexpr int64_t kWordBytes = 8;

constexpr int64_t kDigits = 5;
constexpr uint32_t kBytesOfBase3 = 243;  // 3^5

/// Five digits in the lowest bytes of a word, times this, have their sum of digit_k * 3^k in byte 4. No byte
/// beneath carries: they are sums of some of the same terms, at most 242.
constexpr uint64_t kPowersOf3 = 81 | 27 << 8 | 9 << 16 | 3 << 24 | uint64_t{1} << 32;

/// The codes of each byte of base3, one a byte of a word.
constexpr std::array<uint64_t, 256> make_base3_codes() {
  std::array<uint64_t, 256> table{};
  for (uint32_t byte = 0; byte < kBytesOfBase3; ++byte) {
    uint32_t rest = byte;
    for (int64_t k = 0; k < kDigits; ++k, rest /= 3) {
      table[byte] |= uint64_t{rest % 3 == 2 ? 3 : rest % 3} << (8 * k);
    }
  }
  return table;
}
inline constexpr std::array<uint64_t, 256> kBase3Codes = make_base3_codes();

/// The lowest `bits`, from 0 to 63, of every `lane` bits.
constexpr uint64_t in_lanes(int bits, int lane) {
  uint64_t mask = 0;
  for (int at = 0; at < kWordBits; at += lane) mask |= ((uint64_t{1} << bits) - 1) << at;
  return mask;
}

inline uint64_t load_word(const void* from) {
  uint64_t word = 0;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

}  // namespace detent::packing_detail
#endif  // DETENT_FORMATS_BIT_PACKING_TABLES_

// Plain C++: the compiler vectorises the loops over lanes with the instructions of each target.
HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace packing_detail;

/// Moves the codes of a word between one a Lane and next to each other: neighbours join in lanes of twice,
/// four times, ... the size.
template <class Lane>
class WordOfCodes {
 public:
  static constexpr int64_t kCodes = kWordBytes / static_cast<int64_t>(sizeof(Lane));

  explicit WordOfCodes(int width) {
    for (size_t i = 0; i < kSteps; ++i) {
      const int lane = static_cast<int>(8 * sizeof(Lane)) << i;  // of one neighbour
      const int bits = width << i;
      shift_[i] = lane - bits;
      low_[i] = in_lanes(bits, 2 * lane);
      high_[i] = low_[i] << bits;
    }
  }

  HWY_INLINE uint64_t Join(uint64_t x) const {
    for (size_t i = 0; i < kSteps; ++i) x = (x & low_[i]) | ((x >> shift_[i]) & high_[i]);
    return x;
  }
  HWY_INLINE uint64_t Split(uint64_t x) const {
    for (size_t i = kSteps; i-- > 0;) x = (x & low_[i]) | ((x & high_[i]) << shift_[i]);
    return x;
  }

 private:
  static constexpr size_t kSteps = std::bit_width(static_cast<size_t>(kCodes)) - 1;
  int shift_[kSteps];
  uint64_t low_[kSteps];
  uint64_t high_[kSteps];
};

/// WriteBits of whole bytes.
void WriteBytes(const uint64_t* words, int64_t count, int word_bytes, uint8_t* bytes) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::Full128<uint8_t> du8;
  HWY_ALIGN uint8_t kept[2 * kWordBytes] = {};
  for (int k = 0; k < 2 * static_cast<int>(kWordBytes); ++k) {
    const int of_second = static_cast<int>(kWordBytes) - word_bytes;
    kept[k] = static_cast<uint8_t>(k < word_bytes ? k : (k + of_second) % 16);
  }
  const auto of_pair = hn::Load(du8, kept);
  for (; i + 2 <= count; i += 2, bytes += ptrdiff_t{2} * word_bytes) {
    const auto pair = hn::LoadU(du8, reinterpret_cast<const uint8_t*>(words + i));
    hn::StoreU(hn::TableLookupBytes(pair, of_pair), du8, bytes);
  }
#endif
  for (; i < count; ++i, bytes += word_bytes) std::memcpy(bytes, words + i, kWordBytes);
}

/// Writes the lowest `word_bits` (below 64) of each word, whose other bits are 0, one after another, and up
/// to two words more.
void WriteBits(const uint64_t* words, int64_t count, int word_bits, uint8_t* bytes) {
  if (word_bits % 8 == 0) return WriteBytes(words, count, word_bits / 8, bytes);
  uint64_t pending = 0;
  int used = 0;
  for (int64_t i = 0; i < count; ++i) {
    pending |= words[i] << used;
    std::memcpy(bytes, &pending, kWordBytes);
    used += word_bits;
    if (used < kWordBits) continue;
    used -= kWordBits;
    bytes += kWordBytes;
    pending = words[i] >> (word_bits - used);
  }
  std::memcpy(bytes, &pending, kWordBytes);
}

/// The inverse, except that the higher bits of words may be anything. Reads up to two words beyond the last.
void ReadBits(const uint8_t* bytes, int64_t count, size_t word_bits, uint64_t* words) {
  if (word_bits % 8 == 0) {
    for (int64_t i = 0; i < count; ++i, bytes += word_bits / 8) words[i] = load_word(bytes);
    return;
  }
  size_t bit = 0;
  for (int64_t i = 0; i < count; ++i, bit += word_bits) {
    const uint8_t* first = bytes + bit / 8;
    const size_t shift = bit % 8;
    words[i] = load_word(first) >> shift | load_word(first + kWordBytes) << 1 << (kWordBits - 1 - shift);
  }
}

/// Words of a chunk.
template <class Lane>
constexpr size_t kMaxWords = static_cast<size_t>(kChunk) / static_cast<size_t>(WordOfCodes<Lane>::kCodes);

/// One code a Lane.
template <class Lane>
void PackLanes(const uint32_t* codes, int64_t count, uint8_t* bytes) {
  for (int64_t i = 0; i < count; ++i) {
    const auto code = static_cast<Lane>(codes[i]);
    std::memcpy(bytes + i * static_cast<int64_t>(sizeof(Lane)), &code, sizeof(Lane));
  }
}

template <class Lane>
void UnpackLanes(const uint8_t* bytes, int64_t count, uint32_t* codes) {
  for (int64_t i = 0; i < count; ++i) {
    Lane code = 0;
    std::memcpy(&code, bytes + i * static_cast<int64_t>(sizeof(Lane)), sizeof(Lane));
    codes[i] = code;
  }
}

/// For widths that are not those of Lane, the next larger unsigned integer.
template <class Lane>
void PackWords(int width, const uint32_t* codes, int64_t count, uint8_t* bytes) {
  const WordOfCodes<Lane> word(width);
  constexpr int64_t kCodes = WordOfCodes<Lane>::kCodes;
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t size = std::min(kChunk, count - begin);
    const int64_t words = (size + kCodes - 1) / kCodes;
    alignas(64) uint64_t lanes[kMaxWords<Lane>];
    lanes[words - 1] = 0;
    PackLanes<Lane>(codes + begin, size, reinterpret_cast<uint8_t*>(lanes));
    for (int64_t i = 0; i < words; ++i) lanes[i] = word.Join(lanes[i]);
    uint8_t packed[(kMaxWords<Lane> + 2) * kWordBytes];
    WriteBits(lanes, words, width * static_cast<int>(kCodes), packed);
    std::memcpy(bytes + begin / 8 * width, packed, static_cast<size_t>((size * width + 7) / 8));
  }
}

template <class Lane>
void UnpackWords(int width, const uint8_t* bytes, int64_t count, uint32_t* codes) {
  const WordOfCodes<Lane> word(width);
  constexpr int64_t kCodes = WordOfCodes<Lane>::kCodes;
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t size = std::min(kChunk, count - begin);
    const int64_t words = (size + kCodes - 1) / kCodes;
    uint8_t packed[(kMaxWords<Lane> + 2) * kWordBytes];
    alignas(64) uint64_t lanes[kMaxWords<Lane>];
    std::memcpy(packed, bytes + begin / 8 * width, static_cast<size_t>((size * width + 7) / 8));
    ReadBits(packed, words, static_cast<size_t>(width * kCodes), lanes);
    for (int64_t i = 0; i < words; ++i) lanes[i] = word.Split(lanes[i]);
    UnpackLanes<Lane>(reinterpret_cast<const uint8_t*>(lanes), size, codes + begin);
  }
}

void PackBase3(const uint32_t* codes, int64_t count, uint8_t* bytes) {
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t size = std::min(kChunk, count - begin);
    alignas(64) uint8_t digits[kChunk + kWordBytes];
    for (int64_t i = 0; i < size; ++i) {
      const uint32_t code = codes[begin + i];
      digits[i] = static_cast<uint8_t>(code - (code >> 1));
    }
    std::fill_n(digits + size, kWordBytes, uint8_t{0});
    for (int64_t i = 0; i < size; i += kDigits) {
      *bytes++ = static_cast<uint8_t>(load_word(digits + i) * kPowersOf3 >> 32);
    }
  }
}

int64_t UnpackBase3(const uint8_t* bytes, int64_t count, uint32_t* codes) {
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t size = std::min(kChunk, count - begin);
    const int64_t size_bytes = (size + kDigits - 1) / kDigits;
    const auto is_bad = [](uint8_t byte) { return byte >= kBytesOfBase3; };
    bool any_bad = false;
    for (int64_t i = 0; i < size_bytes; ++i) any_bad |= is_bad(bytes[i]);
    if (any_bad) return begin + (std::find_if(bytes, bytes + size_bytes, is_bad) - bytes) * kDigits;
    alignas(64) uint8_t lanes[kChunk + kWordBytes];
    for (int64_t i = 0; i < size_bytes; ++i) {
      std::memcpy(lanes + i * kDigits, &kBase3Codes[bytes[i]], kWordBytes);
    }
    for (int64_t i = 0; i < size; ++i) codes[begin + i] = lanes[i];
    bytes += size_bytes;
  }
  return count;
}

#if DETENT_UNPACKS_VECTORS
/// kLanes codes at a time, or fewer. Returns the codes done, which are whole bytes.
template <size_t kLanes>
int64_t UnpackVectors(int width, const uint8_t* bytes, int64_t count, uint32_t* codes) {
  const hn::CappedTag<uint32_t, kLanes> du;
  using Unpacker = VectorUnpacker<decltype(du)>;
  if (!Unpacker::Takes(width)) return 0;
  const Unpacker unpacker(width);
  const auto lanes = static_cast<int64_t>(hn::Lanes(du));
  int64_t i = 0;
  for (int64_t left = (count * width + 7) / 8; i + lanes <= count && left >= Unpacker::kBytes;
       i += lanes, left -= unpacker.step(), bytes += unpacker.step())
    hn::StoreU(unpacker.Of(bytes), du, codes + i);
  return i;
}
#endif

/// Calls visit(lane), a value of the smallest unsigned integer that holds `width` bits.
template <class Visit>
HWY_INLINE void WithLane(int width, const Visit& visit) {
  if (width <= 8) return visit(uint8_t{});
  if (width <= 16) return visit(uint16_t{});
  visit(uint32_t{});
}

void PackBits(int width, const uint32_t* codes, int64_t count, uint8_t* bytes) {
  WithLane(width, [&]<class Lane>(Lane) {
    if (width == static_cast<int>(8 * sizeof(Lane))) {
      PackLanes<Lane>(codes, count, bytes);
    } else {
      PackWords<Lane>(width, codes, count, bytes);
    }
  });
}

void UnpackBits(int width, const uint8_t* bytes, int64_t count, uint32_t* codes) {
#if DETENT_UNPACKS_VECTORS
  if (width < 16 && width != 8) {
    const int64_t done = width < 8 ? UnpackVectors<16>(width, bytes, count, codes)
                                   : UnpackVectors<8>(width, bytes, count, codes);
    bytes += done * width / 8;
    count -= done;
    codes += done;
  }
#endif
  WithLane(width, [&]<class Lane>(Lane) {
    if (width == static_cast<int>(8 * sizeof(Lane))) {
      UnpackLanes<Lane>(bytes, count, codes);
    } else {
      UnpackWords<Lane>(width, bytes, count, codes);
    }
  });
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(PackBits);
HWY_EXPORT(UnpackBits);
HWY_EXPORT(PackBase3);
HWY_EXPORT(UnpackBase3);

int64_t packed_size(Packing packing, int width, int64_t count) {
  using packing_detail::kDigits;
  if (packing == Packing::kBase3) return count / kDigits + (count % kDigits != 0 ? 1 : 0);
  int64_t bits = 0;
  if (__builtin_mul_overflow(count, int64_t{width}, &bits)) {
    fail("packing: {} codes of {} bits are too many", count, width);
  }
  return bits / 8 + (bits % 8 != 0 ? 1 : 0);
}

void pack_codes(Packing packing, int width, const uint32_t* codes, int64_t count, uint8_t* bytes) {
  if (packing == Packing::kBase3) return HWY_DYNAMIC_DISPATCH(PackBase3)(codes, count, bytes);
  HWY_DYNAMIC_DISPATCH(PackBits)(width, codes, count, bytes);
}

int64_t unpack_codes(Packing packing, int width, const uint8_t* bytes, int64_t count, uint32_t* codes) {
  if (packing == Packing::kBase3) return HWY_DYNAMIC_DISPATCH(UnpackBase3)(bytes, count, codes);
  HWY_DYNAMIC_DISPATCH(UnpackBits)(width, bytes, count, codes);
  return count;
}

}  // namespace detent
#endif  // HWY_ONCE
