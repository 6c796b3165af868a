#include "detent/engine/kernels/includes-inl.h"
#include "detent/engine/kernels/kernel_set.h"

namespace detent::portable {

/// Without instructions of its own: sixteen bytes at once in plain C++.
struct Ops {
  static constexpr bool kAddsFour = false;  // products at once
  static constexpr int64_t kBytes = 16;
  static constexpr int64_t kLanes = 4;
  struct V {
    alignas(16) std::array<uint8_t, 16> bytes;
  };
  using X = V;
  using W = V;
  using Lanes = std::array<int32_t, 4>;

  static Lanes LanesOf(V v) {
    Lanes lanes;
    std::memcpy(lanes.data(), v.bytes.data(), 16);
    return lanes;
  }
  static V FromLanes(Lanes lanes) { return LoadSums(lanes.data()); }
  static V LoadSums(const int32_t* p) {
    V v;
    std::memcpy(v.bytes.data(), p, 16);
    return v;
  }
  static void StoreSums(V v, int32_t* p) { std::memcpy(p, v.bytes.data(), 16); }
  static W LoadWeights(const int8_t* p) {
    V v;
    std::memcpy(v.bytes.data(), p, 16);
    return v;
  }
  static V LoadBytes(const uint8_t* p) {
    V v;
    std::memcpy(v.bytes.data(), p, 16);
    return v;
  }
  static W Factors(V w) { return w; }
  static V Zero() { return {}; }
  static V Times256(V numbers) {
    Lanes lanes = LanesOf(numbers);
    for (int32_t& lane : lanes) lane = static_cast<int32_t>(static_cast<uint32_t>(lane) << 8U);
    return FromLanes(lanes);
  }
  static V Sum(V a, V b) {
    Lanes lanes = LanesOf(a);
    const Lanes others = LanesOf(b);
    for (size_t i = 0; i < 4; ++i)
      lanes[i] = static_cast<int32_t>(static_cast<uint32_t>(lanes[i]) + static_cast<uint32_t>(others[i]));
    return FromLanes(lanes);
  }
  using Words = std::array<uint16_t, 8>;
  static HWY_INLINE Words WordsOf(V v) {
    Words words;
    std::memcpy(words.data(), v.bytes.data(), 16);
    return words;
  }
  static HWY_INLINE V FromWords(const Words& words) {
    V v;
    std::memcpy(v.bytes.data(), words.data(), 16);
    return v;
  }
  /// Shifts 16-bit lanes; bits that come from the neighbouring byte are masked away.
  template <int kBits>
  static HWY_INLINE V Shifted(V v) {
    Words words = WordsOf(v);
    for (uint16_t& word : words) word = static_cast<uint16_t>(kBits < 0 ? word >> -kBits : word << kBits);
    return FromWords(words);
  }
  template <class Function>
  static HWY_INLINE V OfEach(V a, V b, const Function& function) {
    for (size_t i = 0; i < 16; ++i) a.bytes[i] = static_cast<uint8_t>(function(a.bytes[i], b.bytes[i]));
    return a;
  }
  static HWY_INLINE V SameByte(uint8_t byte) {
    V v;
    v.bytes.fill(byte);
    return v;
  }
  static HWY_INLINE V Masked(V v, uint8_t mask) { return OfEach(v, SameByte(mask), std::bit_and<>()); }
  static HWY_INLINE V Or(V a, V b) { return OfEach(a, b, std::bit_or<>()); }
  static HWY_INLINE V AddBytes(V a, V b) { return OfEach(a, b, std::plus<>()); }
  static HWY_INLINE V Average(V a, V b) {
    return OfEach(a, b, [](int x, int y) { return (x + y + 1) / 2; });
  }
  static V Same(int32_t number) { return FromLanes({number, number, number, number}); }
  /// Sums of two products each, in 16 bits.
  static HWY_INLINE V Pairs(V x, V codes) {
    Words words = WordsOf(x);
    const Words others = WordsOf(codes);
    for (size_t i = 0; i < 8; ++i) {
      const auto code = static_cast<int16_t>(others[i]);
      words[i] = static_cast<uint16_t>((words[i] & 255) * (static_cast<int16_t>(code << 8) >> 8) +
                                       (words[i] >> 8) * (code >> 8));
    }
    return FromWords(words);
  }
  static HWY_INLINE V SumOfPairs(V a, V b) {
    Words words = WordsOf(a);
    const Words others = WordsOf(b);
    for (size_t i = 0; i < 8; ++i) words[i] = static_cast<uint16_t>(words[i] + others[i]);
    return FromWords(words);
  }
  static HWY_INLINE V Joined(V pairs) {
    Lanes lanes = LanesOf(pairs);
    for (int32_t& lane : lanes)
      lane = (static_cast<int32_t>(static_cast<uint32_t>(lane) << 16U) >> 16) + (lane >> 16);
    return FromLanes(lanes);
  }
  /// a x + b y, with sums of two such products in 16 bits.
  static HWY_INLINE V AddSmallProducts(V sums, V a, V x, V b, V y) {
    return Sum(sums, Joined(SumOfPairs(Pairs(a, x), Pairs(b, y))));
  }
  static X Inputs(V v) { return v; }
  static X Broadcast(const uint8_t* p) { return Four(p); }
  static HWY_INLINE V Four(const uint8_t* p) {
    int32_t four;
    std::memcpy(&four, p, sizeof(four));
    return Same(four);
  }
  /// Each product fits into 16 bits.
  static HWY_INLINE V AddProducts(V sums, X x, W w) {
    Words even = WordsOf(x);
    Words odd = even;
    const Words weights = WordsOf(w);
    for (size_t i = 0; i < 8; ++i) {
      const auto weight = static_cast<int16_t>(weights[i]);
      even[i] = static_cast<uint16_t>((even[i] & 255) * (static_cast<int16_t>(weight << 8) >> 8));
      odd[i] = static_cast<uint16_t>((odd[i] >> 8) * (weight >> 8));
    }
    return Sum(sums, Sum(Joined(FromWords(even)), Joined(FromWords(odd))));
  }
  template <size_t kUnit, size_t kHalf>
  static V Interleaved(V a, V b) {
    V v;
    for (size_t i = 0; i < 8; i += kUnit) {
      for (size_t k = 0; k < kUnit; ++k) {
        v.bytes[2 * i + k] = a.bytes[kHalf + i + k];
        v.bytes[2 * i + kUnit + k] = b.bytes[kHalf + i + k];
      }
    }
    return v;
  }
  static V LowBytes(V a, V b) { return Interleaved<1, 0>(a, b); }
  static V HighBytes(V a, V b) { return Interleaved<1, 8>(a, b); }
  static V LowPairs(V a, V b) { return Interleaved<2, 0>(a, b); }
  static V HighPairs(V a, V b) { return Interleaved<2, 8>(a, b); }
  static V Rounded(V sums, const float* multiplier, float least, float most, int32_t zero) {
    Lanes lanes = LanesOf(sums);
    for (size_t i = 0; i < 4; ++i) {
      const float steps = static_cast<float>(lanes[i]) * multiplier[i];
      const float below = steps < most ? steps : most;
      const float held = below > least ? below : least;
      lanes[i] = static_cast<int32_t>((held + 0x1.8p23F) - 0x1.8p23F) + zero;
    }
    return FromLanes(lanes);
  }
  static void StoreValues(V sums, const float* scale, float* to) {
    const Lanes lanes = LanesOf(sums);
    for (size_t i = 0; i < 4; ++i) to[i] = static_cast<float>(lanes[i]) * scale[i];
  }
  static void StoreBlock(const V* steps, uint8_t* to) {
    for (size_t v = 0; v < 4; ++v) {
      const Lanes lanes = LanesOf(steps[v]);
      for (size_t i = 0; i < 4; ++i) to[4 * v + i] = static_cast<uint8_t>(lanes[i]);
    }
  }
  static V LargerBytes(V a, V b) {
    for (size_t i = 0; i < 16; ++i) a.bytes[i] = std::max(a.bytes[i], b.bytes[i]);
    return a;
  }
  static void StoreBytes(V v, uint8_t* to, int64_t count) {
    std::copy_n(v.bytes.begin(), std::min(count, kBytes), to);
  }
  static void StoreInterleaved(const V* steps, uint8_t* to, int64_t count) {
    uint8_t bytes[16];
    StoreBlock(steps, bytes);
    std::copy_n(bytes, count, to);
  }
};

constexpr const char* kName = "portable";
constexpr int kMostRows = 1;
constexpr int kMostBlocks = 1;
constexpr int64_t kMostWindows[5] = {0, 2, 0, 0, 0};

#include "detent/engine/kernels/tiles-inl.h"
#include "detent/engine/kernels/narrow_codes-inl.h"
#include "detent/engine/kernels/narrow_pairs-inl.h"
#include "detent/engine/kernels/sums-inl.h"
#include "detent/engine/kernels/elementwise-inl.h"
#include "detent/engine/kernels/product-inl.h"

struct Blocks {
  static constexpr int kMostGroups = 1;  // of one window at once
  static constexpr int kTileGroups = 1;
  static constexpr int kTileWindows = 1;
  using V = Ops::V;
  using F = std::array<float, 4>;

  static F NoSum() { return {}; }
  static V Four(const int8_t* p) { return Ops::Broadcast(reinterpret_cast<const uint8_t*>(p)); }
  static V Table(const uint8_t* p) { return Ops::LoadBytes(p); }
  static V OfLow(V table, V packed) {
    for (uint8_t& byte : packed.bytes) byte = table.bytes[byte & 15U];
    return packed;
  }
  static V OfHigh(V table, V packed) {
    for (uint8_t& byte : packed.bytes) byte = static_cast<uint8_t>(byte >> 4U);
    return OfLow(table, packed);
  }
  static V Times(const int16_t* p, int32_t factor) {
    Ops::Lanes lanes;
    for (size_t i = 0; i < 4; ++i) lanes[i] = p[i] * factor;
    return Ops::FromLanes(lanes);
  }
  /// Floats of which these are the bits, but for the lowest.
  template <class Bits>
  static F Shifted(const Bits* scales, unsigned count) {
    F result;
    for (size_t i = 0; i < 4; ++i) {
      const uint32_t bits = uint32_t{scales[i]} << count;
      std::memcpy(&result[i], &bits, sizeof(bits));
    }
    return result;
  }
  static F Powers(const uint8_t* exponents) { return Shifted(exponents, 23); }
  static F Halves(const uint16_t* scales) { return Shifted(scales, 16); }
  static F Whole(const float* scales) { return {scales[0], scales[1], scales[2], scales[3]}; }
  static F AddScaled(F sum, V products, F scale) {
    const Ops::Lanes lanes = Ops::LanesOf(products);
    for (size_t i = 0; i < 4; ++i) sum[i] = std::fma(scale[i], static_cast<float>(lanes[i]), sum[i]);
    return sum;
  }
  static void StoreSteps(F sum, float multiplier, const float* start, float* to) {
    for (size_t i = 0; i < 4; ++i) to[i] = std::fma(multiplier, sum[i], start[i]);
  }
};
#include "detent/engine/kernels/block_inputs-inl.h"
#include "detent/engine/kernels/block_sums-inl.h"

struct Bits {
  static constexpr int kWords = 1;
  static constexpr int64_t kMostWords = 0;  // no limit
  static constexpr int kMostSignWindows = 1;
  static constexpr int kMostTernaryWindows = 1;
  using B = uint64_t;

  static B Broadcast(const uint8_t* p) {
    B word;
    std::memcpy(&word, p, sizeof(word));
    return word;
  }
  static B Load(const int8_t* p) { return Broadcast(reinterpret_cast<const uint8_t*>(p)); }
  static B Same(int64_t count) { return static_cast<B>(count); }
  static B Common(B a, B b) { return a & b; }
  static B Differing(B both, B a, B b) { return both & (a ^ b); }
  static B More(B a, B b) { return a + b; }
  static B Less(B a, B b) { return a - b; }
  /// In pairs of bits, fours, bytes, and those added up: without an instruction, a call would take longer.
  static B Number(B bits) {
    bits -= bits >> 1U & 0x5555555555555555;
    bits = (bits & 0x3333333333333333) + (bits >> 2U & 0x3333333333333333);
    bits = (bits + (bits >> 4U)) & 0x0F0F0F0F0F0F0F0F;
    return bits * 0x0101010101010101 >> 56U;
  }
  static B Count(B counts, B bits) { return counts + Number(bits); }
  static B Whole(B counts) { return counts; }
  static void Narrow(const B* sums, Ops::V* to) {
    for (size_t v = 0; v < kVectors; ++v) {
      Ops::Lanes lanes;
      for (size_t i = 0; i < 4; ++i) lanes[i] = static_cast<int32_t>(sums[4 * v + i]);
      to[v] = Ops::FromLanes(lanes);
    }
  }
  static int32_t CountOf(uint64_t bits) { return static_cast<int32_t>(Number(bits)); }
  /// Which bytes are not `zero`, and which are below.
  static std::pair<uint64_t, uint64_t> Compared(const uint8_t* bytes, uint8_t zero, int64_t count) {
    uint64_t others = 0;
    uint64_t below = 0;
    for (int64_t i = 0; i < count; ++i) {
      others |= uint64_t{bytes[i] != zero} << i;
      below |= uint64_t{bytes[i] < zero} << i;
    }
    return {others, below};
  }
};
#include "detent/engine/kernels/bit_planes-inl.h"
constexpr auto kAddBlocks = AddBlocksOfInputs;
constexpr auto kBitPlanes = BitPlanes;
constexpr auto kAddBitPlanes = AddBitPlanes;
#include "detent/engine/kernels/export-inl.h"

}  // namespace detent::portable
