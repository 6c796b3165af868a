#include "detent/kernels/packed_linear.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "detent/core/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/kernels/packed_linear.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/core/fused-inl.h"
#include "detent/core/parallel.h"
#include "detent/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLanes = hn::MaxLanes(Singles());
constexpr bool kHas32Registers = HWY_TARGET <= HWY_AVX3;

/// Vectors of a tile of so many rows: twelve sums beside the weights and an input, or 24. Two rows take a
/// whole panel, whose weights come one after the other then.
constexpr int64_t most_vectors(int64_t rows) {
  if (kHas32Registers && rows == 2) return 8;
  return rows == 8 ? 3 : 12 / rows;
}

/// Widths that tiles have in vectors: the most and powers of two below it. Columns are whole blocks of
/// kSumLanes, so that no tile is narrower than a block where wider ones are whole blocks too. Each width is a
/// loop for every kind of weights: few of them, or this file alone takes minutes to compile.
constexpr int64_t least_vectors(int64_t rows) {
  constexpr int64_t kOfBlock = int64_t{kSumLanes} / kLanes;
  return most_vectors(rows) % kOfBlock == 0 ? kOfBlock : 1;
}
constexpr int64_t next_narrower(int64_t vectors) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(vectors - 1)));
}

using Vector = hn::VFromD<Singles>;

// Where weights are read: those of kInputs inputs at a time, at `At` an input of a column, `Load` some
// outputs.

struct Whole {
  static constexpr int64_t kInputs = 1;
  static constexpr bool kHasScales = false;
  static constexpr bool kIsScattered = false;
  static constexpr bool kHasMinimums = false;
  static const float* At(const PanelSums& p, int64_t k) { return p.weights + k * p.width; }
  static HWY_INLINE Vector Load(const PanelSums& /*p*/, Singles d, const float* from, int64_t /*input*/) {
    return hn::LoadU(d, from);
  }
};
struct Halves {
  static constexpr int64_t kInputs = 1;
  static constexpr bool kHasScales = false;
  static constexpr bool kIsScattered = false;
  static constexpr bool kHasMinimums = false;
  static const uint16_t* At(const PanelSums& p, int64_t k) { return p.halves + k * p.width; }
  static HWY_INLINE Vector Load(const PanelSums& /*p*/, Singles d, const uint16_t* from, int64_t /*input*/) {
    const hn::Rebind<uint16_t, Singles> narrow;
    const hn::RebindToUnsigned<Singles> bits;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::LoadU(narrow, from))));
  }
};
struct Codes {
  static constexpr int64_t kInputs = 1;
  static constexpr bool kHasScales = true;
  static constexpr bool kIsScattered = false;
  static constexpr bool kHasMinimums = false;
  static const int8_t* At(const PanelSums& p, int64_t k) { return p.codes + k * p.width; }
  static HWY_INLINE Vector Load(const PanelSums& /*p*/, Singles d, const int8_t* from, int64_t /*input*/) {
    const hn::Rebind<int8_t, Singles> narrow;
    const hn::RebindToSigned<Singles> words;
    return hn::ConvertTo(d, hn::PromoteTo(words, hn::LoadU(narrow, from)));
  }
};
/// Eight inputs of an output in a word.
struct Nibbles {
  static constexpr int64_t kInputs = 8;
  static constexpr bool kHasScales = true;
  static constexpr bool kIsScattered = false;
  static constexpr bool kHasMinimums = false;
  static const int32_t* At(const PanelSums& p, int64_t k) {
    return reinterpret_cast<const int32_t*>(p.codes) + k / kInputs * p.width;
  }
  static HWY_INLINE Vector Load(const PanelSums& /*p*/, Singles d, const int32_t* from, int64_t input) {
    const hn::RebindToSigned<Singles> words;
    const auto word = hn::LoadU(words, from);
    const auto bit = static_cast<int>(4 * input);
#if HWY_TARGET <= HWY_AVX3
    alignas(64) static constexpr float kValues[] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
    return ValueOf(hn::Load(d, kValues), hn::ShiftRightSame(word, bit));
#else
    return hn::ConvertTo(d, hn::ShiftRight<28>(hn::ShiftLeftSame(word, 28 - bit)));
#endif
  }
#if HWY_TARGET <= HWY_AVX3
  /// By the lowest four bits of an index, which the instruction takes alone.
  static HWY_INLINE Vector ValueOf(Vector table, hn::VFromD<hn::RebindToSigned<Singles>> index) {
    return Vector{_mm512_permutexvar_ps(index.raw, table.raw)};
  }
#endif
};

/// float8_e4m3fn, whose bits are those of float16 but for the bias of exponents, which scales make up for.
struct Float8 : Codes {
  static HWY_INLINE Vector Load(const PanelSums& /*p*/, Singles d, const int8_t* from, int64_t /*input*/) {
    constexpr auto kBits = static_cast<int16_t>(0xBF80);
    const hn::Rebind<int8_t, Singles> narrow;
    const hn::Rebind<int16_t, Singles> words;
    const hn::Rebind<hwy::float16_t, Singles> halves;
    const auto code = hn::PromoteTo(words, hn::LoadU(narrow, from));
    const auto bits = hn::And(hn::ShiftLeft<7>(code), hn::Set(words, kBits));
    return hn::PromoteTo(d, hn::BitCast(halves, bits));
  }
};
/// Eight indices of an output in a word.
struct Indices : Nibbles {
  static HWY_INLINE Vector Load(const PanelSums& p, Singles d, const int32_t* from, int64_t input) {
    const hn::RebindToSigned<Singles> words;
    const auto shifted = hn::ShiftRightSame(hn::LoadU(words, from), static_cast<int>(4 * input));
#if HWY_TARGET <= HWY_AVX3
    return ValueOf(hn::LoadU(d, p.table), shifted);
#else
    const auto index = hn::And(shifted, hn::Set(words, 15));
    if constexpr (kLanes == 8) {
      const auto within = hn::IndicesFromVec(d, hn::And(index, hn::Set(words, 7)));
      const auto first = hn::TableLookupLanes(hn::LoadU(d, p.table), within);
      const auto second = hn::TableLookupLanes(hn::LoadU(d, p.table + kLanes), within);
      return hn::IfThenElse(hn::RebindMask(d, hn::Gt(index, hn::Set(words, 7))), second, first);
    } else {
      return hn::GatherIndex(d, p.table, index);
    }
#endif
  }
};

// Codes with minimums; those of four bits have no sign.

struct HighCodes : Codes {
  static constexpr bool kHasMinimums = true;
};
struct HighNibbles : Nibbles {
  static constexpr bool kHasMinimums = true;
  static HWY_INLINE Vector Load(const PanelSums& /*p*/, Singles d, const int32_t* from, int64_t input) {
    const hn::RebindToSigned<Singles> words;
    const auto shifted = hn::ShiftRightSame(hn::LoadU(words, from), static_cast<int>(4 * input));
#if HWY_TARGET <= HWY_AVX3
    alignas(64) static constexpr float kValues[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return ValueOf(hn::Load(d, kValues), shifted);
#else
    return hn::ConvertTo(d, hn::And(shifted, hn::Set(words, 15)));
#endif
  }
};

// Codes whose inputs have a group each.

struct ScatteredCodes : Codes {
  static constexpr bool kIsScattered = true;
};
struct ScatteredNibbles : Nibbles {
  static constexpr bool kIsScattered = true;
};

/// Codes as weights, with one rounding of the product and one of the sum.
template <class Weights>
HWY_INLINE Vector Scaled(const PanelSums& p, int64_t place, Vector code) {
  const Singles d;
  const Vector product = hn::Mul(code, hn::LoadU(d, p.scales + place));
  if constexpr (Weights::kHasMinimums) return hn::Add(product, hn::LoadU(d, p.minimums + place));
  return product;
}

/// Brings the weights nearer that come `kAhead` bytes later: processors look ahead within a page only, so
/// that reads of few bytes for each product wait for memory at the end of each.
HWY_INLINE void FetchAhead(const void* from, int64_t bytes) {
  constexpr uintptr_t kAhead = 4096;
  constexpr int64_t kLine = 64;
  const uintptr_t first = reinterpret_cast<uintptr_t>(from) + kAhead;
  for (int64_t i = 0; i < bytes; i += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(first + static_cast<uintptr_t>(i)), 0, 3);
}

template <class Weights, int64_t Rows, int64_t Vectors>
HWY_NOINLINE void SumTile(const PanelSums& p, int64_t row, int64_t column) {
  const Singles d;
  Vector sums[static_cast<size_t>(Rows)][static_cast<size_t>(Vectors)];
  for (auto& of_row : sums) {
    for (auto& sum : of_row) sum = hn::Zero(d);
  }
  const float* inputs = p.inputs + row * p.depth;
  for (int64_t begin = 0; begin < p.depth; begin += p.group) {
    const int64_t place = begin / p.group * p.width + column;
    const auto* weights = Weights::At(p, begin) + column;
    const int64_t end = std::min(p.depth, begin + p.group);
    if constexpr (Weights::kHasScales) {
      if (column == 0) FetchAhead(p.scales + place, p.width * int64_t{sizeof(float)});
      if (column == 0 && Weights::kHasMinimums)
        FetchAhead(p.minimums + place, p.width * int64_t{sizeof(float)});
    }
    for (int64_t k = begin; k < end; k += Weights::kInputs, weights += p.width) {
      if (column == 0) FetchAhead(weights, p.width * int64_t{sizeof(*weights)});
      const int64_t inputs_here = Weights::kInputs == 1 ? 1 : std::min(Weights::kInputs, end - k);
#pragma GCC unroll 8
      for (int64_t i = 0; i < Weights::kInputs; ++i) {
        if (i == inputs_here) break;
        Vector scaled[static_cast<size_t>(Vectors)];
        if constexpr (Weights::kHasScales) {
          const int64_t at = Weights::kIsScattered ? p.group_of[k + i] * p.width + column : place;
          for (int64_t v = 0; v < Vectors; ++v)
            scaled[v] = Scaled<Weights>(p, at + v * kLanes, Weights::Load(p, d, weights + v * kLanes, i));
        }
        for (int64_t r = 0; r < Rows; ++r) {
          const auto input = hn::Set(d, inputs[r * p.depth + k + i]);
          for (int64_t v = 0; v < Vectors; ++v) {
            const auto weight =
                Weights::kHasScales ? scaled[v] : Weights::Load(p, d, weights + v * kLanes, i);
            sums[r][v] = Fused(d, input, weight, sums[r][v]);
          }
        }
      }
    }
  }
  float* results = p.results + row * p.stride + column;
  for (int64_t r = 0; r < Rows; ++r, results += p.stride) {
    for (int64_t v = 0; v < Vectors; ++v) {
      const auto bias = hn::LoadU(d, p.bias + column + v * kLanes);
      hn::StoreU(hn::Add(sums[r][v], bias), d, results + v * kLanes);
    }
  }
}

/// The widest tile that has at most so many vectors; returns how many it has.
template <class Weights, int64_t Rows, int64_t Vectors = most_vectors(Rows)>
HWY_INLINE int64_t SumTileWithin(int64_t vectors, const PanelSums& p, int64_t row, int64_t column) {
  if constexpr (Vectors > least_vectors(Rows)) {
    if (vectors < Vectors)
      return SumTileWithin<Weights, Rows, next_narrower(Vectors)>(vectors, p, row, column);
  }
  SumTile<Weights, Rows, Vectors>(p, row, column);
  return Vectors;
}

/// All columns, in tiles of about one width.
template <class Weights, int64_t Rows>
HWY_INLINE void SumRows(const PanelSums& p, int64_t row) {
  constexpr int64_t kMost = most_vectors(Rows);
  for (int64_t column = 0; column < p.width;) {
    const int64_t left = (p.width - column) / kLanes;
    const int64_t tiles = (left + kMost - 1) / kMost;
    column += SumTileWithin<Weights, Rows>((left + tiles - 1) / tiles, p, row, column) * kLanes;
  }
}

template <class Weights>
void SumPanelOf(const PanelSums& p) {
  int64_t row = 0;
  if constexpr (kHas32Registers) {
    for (; row + 8 <= p.rows; row += 8) SumRows<Weights, 8>(p, row);
  }
  for (; row + 4 <= p.rows; row += 4) SumRows<Weights, 4>(p, row);
  for (; row + 2 <= p.rows; row += 2) SumRows<Weights, 2>(p, row);
  for (; row < p.rows; ++row) SumRows<Weights, 1>(p, row);
}

/// All weights of the panel as float32.
template <class Weights>
void Widen(const PanelSums& p, float* to) {
  const Singles d;
  for (int64_t k = 0; k < p.depth; ++k, to += p.width) {
    const auto* from = Weights::At(p, k);
    const int64_t place = (Weights::kIsScattered ? p.group_of[k] : k / p.group) * p.width;
    for (int64_t i = 0; i < p.width; i += kLanes) {
      auto weights = Weights::Load(p, d, from + i, k % Weights::kInputs);
      if constexpr (Weights::kHasScales) weights = Scaled<Weights>(p, place + i, weights);
      hn::StoreU(weights, d, to + i);
    }
  }
}

template <class Weights>
void SumNarrow(const PanelSums& p) {
  constexpr int64_t kManyRows = 16;  // from which on it pays to widen the weights first
  if (p.rows < kManyRows) return SumPanelOf<Weights>(p);
  // No vector: what stays of a first run would lie between it and the next one in the heap.
  Tensor weights(DType::kFloat32, {p.depth * p.width});
  Widen<Weights>(p, weights.values<float>().data());
  PanelSums whole = p;
  whole.weights = weights.values<float>().data();
  whole.group = p.depth;
  SumPanelOf<Whole>(whole);
}

void SumPanel(const PanelSums& p) {
  if (p.group_of != nullptr) {
    p.are_nibbles ? SumNarrow<ScatteredNibbles>(p) : SumNarrow<ScatteredCodes>(p);
  } else if (p.table != nullptr) {
    SumNarrow<Indices>(p);
  } else if (p.are_float8) {
    SumNarrow<Float8>(p);
  } else if (p.minimums != nullptr) {
    p.are_nibbles ? SumNarrow<HighNibbles>(p) : SumNarrow<HighCodes>(p);
  } else if (p.codes != nullptr) {
    p.are_nibbles ? SumNarrow<Nibbles>(p) : SumNarrow<Codes>(p);
  } else if (p.halves != nullptr) {
    SumNarrow<Halves>(p);
  } else {
    SumPanelOf<Whole>(p);
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(SumPanel);

namespace {

constexpr int64_t kBlock = kSumLanes;
/// Outputs of a panel, whose weights follow each other in memory: eight vectors of sixteen. The last has five
/// to twelve, or all there are.
constexpr int64_t kPanel = 8 * kBlock;
constexpr int64_t kLeastOfLast = 5 * kBlock;
constexpr int64_t kWordBytes = 4;
/// Codes of four bits in a word.
constexpr int64_t kNibbles = 8;
/// Rows that a thread computes by a panel at once.
constexpr int64_t kRows = 64;
/// Products that are worth a thread.
constexpr int64_t kSplit = int64_t{1} << 21;

/// Bytes of the weights of an output.
int64_t bytes_of_output(int64_t depth, DType dtype, bool are_nibbles) {
  if (are_nibbles) return (depth + kNibbles - 1) / kNibbles * kWordBytes;
  return depth * static_cast<int64_t>(dtype_size(dtype));
}

/// Four bits of each input, the first in the lowest.
uint32_t packed_nibbles(const std::array<int8_t, kNibbles>& inputs) {
  uint64_t word = std::bit_cast<uint64_t>(inputs) & 0x0f0f0f0f0f0f0f0f;
  word = (word | word >> 4) & 0x00ff00ff00ff00ff;
  word = (word | word >> 8) & 0x0000ffff0000ffff;
  return static_cast<uint32_t>(word | word >> 16);
}

struct WeightCodes {
  Tensor codes;             // int8
  bool fit_nibbles = true;  // as signed ones, with minimums as unsigned ones
};

struct CodeBounds {
  int least = 0;
  int most = 0;
};

/// As find_codes, with a scale of 0: all codes give the weight, but for the sign of a zero.
bool find_codes_without_scale(std::span<const float> weights, float scale, std::optional<float> minimum,
                              int8_t* codes, CodeBounds& bounds) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const bool is_other_zero = minimum.value_or(0) == 0 && std::signbit(weights[i]) != std::signbit(scale);
    const int code = is_other_zero ? -1 : 0;
    float value = static_cast<float>(code) * scale;
    if (minimum) value = value + *minimum;
    if (std::bit_cast<uint32_t>(value) != std::bit_cast<uint32_t>(weights[i])) return false;
    codes[i] = static_cast<int8_t>(code);
    bounds.least = std::min(bounds.least, code);
  }
  return true;
}

/// Finds codes with which code x scale (+ minimum) is the weight to the last bit; false where a weight has
/// none. No way out of the loop, so that it is computed in vectors.
template <bool kHasMinimum>
bool find_codes(std::span<const float> weights, float scale, float minimum, int8_t* codes,
                CodeBounds& bounds) {
  int least = bounds.least;
  int most = bounds.most;
  int others = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const float steps = (weights[i] - minimum) / scale;
    const bool is_near = steps < 127.25F && steps > -128.25F;
    const float near = is_near ? steps : 0;
    const int code = static_cast<int>(near + (near < 0 ? -0.5F : 0.5F));
    float value = static_cast<float>(code) * scale;
    if constexpr (kHasMinimum) value = value + minimum;
    others |= static_cast<int>(!is_near) |
              static_cast<int>(std::bit_cast<uint32_t>(value) != std::bit_cast<uint32_t>(weights[i]));
    codes[i] = static_cast<int8_t>(code);
    most = std::max(most, code);
    least = std::min(least, code);
  }
  bounds = {.least = least, .most = most};
  return others == 0;
}

constexpr float kFloat8Factor = 256;  // between float8_e4m3fn and float16 of the same bits
constexpr size_t kTableSize = 16;

std::array<float, 256> values_of_float8() {
  std::array<float, 256> values{};
  for (uint32_t code = 0; code < values.size(); ++code) {
    constexpr uint32_t kSigns = 128;
    const auto half = static_cast<uint16_t>((code & kSigns) << 8U | (code & (kSigns - 1)) << 7U);
    values[code] = float16_to_float(half) * kFloat8Factor;
  }
  return values;
}

/// The code nearest to a number that is one; numbers beyond them give others.
uint32_t nearest_float8(float number) {
  constexpr uint32_t kDropped = 20;                                  // bits of the mantissa
  constexpr uint32_t kLeastNormal = (127U - 7) << (23U - kDropped);  // as its bits begin in float32
  constexpr uint32_t kSignOfCode = 128;
  constexpr uint32_t kLargest = 126;
  const float size = std::abs(number);
  const uint32_t sign = std::signbit(number) ? kSignOfCode : 0;
  if (size < 0x1p-6F) return sign | static_cast<uint32_t>(size * 0x1p9F + 0.5F);
  const uint32_t code = (std::bit_cast<uint32_t>(size) + (1U << (kDropped - 1))) >> kDropped;
  return sign | std::min(code - kLeastNormal, kLargest);
}

/// As find_codes, of float8_e4m3fn.
bool find_float8(std::span<const float> weights, float scale, int8_t* codes) {
  static const std::array<float, 256> kValues = values_of_float8();
  if (!std::isfinite(scale * kFloat8Factor)) return false;
  int others = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const uint32_t code = nearest_float8(scale == 0 ? std::copysign(0.0F, weights[i]) : weights[i] / scale);
    others |= static_cast<int>(std::bit_cast<uint32_t>(kValues[code] * scale) !=
                               std::bit_cast<uint32_t>(weights[i]));
    codes[i] = static_cast<int8_t>(code);
  }
  return others == 0;
}

/// As find_codes, of a table's indices.
bool find_indices(std::span<const float> weights, float scale, std::span<const float> table, int8_t* codes) {
  constexpr int8_t kNone = -1;
  std::fill_n(codes, weights.size(), kNone);
  for (size_t j = table.size(); j-- > 0;) {
    const auto value = std::bit_cast<uint32_t>(table[j] * scale);
    for (size_t i = 0; i < weights.size(); ++i)
      codes[i] = std::bit_cast<uint32_t>(weights[i]) == value ? static_cast<int8_t>(j) : codes[i];
  }
  return std::find(codes, codes + weights.size(), kNone) == codes + weights.size();
}

bool find_group_codes(std::span<const float> weights, float scale, std::optional<float> minimum,
                      int8_t* codes, CodeBounds& bounds) {
  if (scale == 0) return find_codes_without_scale(weights, scale, minimum, codes, bounds);
  return minimum ? find_codes<true>(weights, scale, *minimum, codes, bounds)
                 : find_codes<false>(weights, scale, 0, codes, bounds);
}

/// nullopt unless all weights are codes times the scales, plus the minimums, to the last bit. `groups` of an
/// output; 0: all weights share one scale.
std::optional<WeightCodes> weight_codes(const Tensor& weight, const WeightScales& scales, int64_t groups) {
  const int64_t depth = weight.dim(1);
  const bool has_minimums = !scales.minimums.empty();
  if (!scales.table.empty() && scales.table.size() != kTableSize) return std::nullopt;
  if (has_minimums && scales.minimums.size() != scales.scales.size()) return std::nullopt;
  const bool is_scattered = !scales.group_of.empty();
  const int64_t length = is_scattered ? 1 : groups == 0 ? depth : scales.group;
  const float* const from = weight.values<float>().data();
  WeightCodes found{Tensor(DType::kInt8, {weight.numel()})};
  int8_t* const codes = found.codes.values<int8_t>().data();
  CodeBounds bounds;
  size_t group = 0;
  for (int64_t output = 0; output < weight.dim(0); ++output) {
    for (int64_t k = 0; k < depth; k += length) {
      const int64_t first = output * depth + k;
      const std::span<const float> weights(from + first, static_cast<size_t>(std::min(length, depth - k)));
      const auto minimum = has_minimums ? std::optional(scales.minimums[group]) : std::nullopt;
      const auto scattered = [&] {
        return static_cast<size_t>(output * groups + scales.group_of[static_cast<size_t>(k)]);
      };
      const float scale = scales.scales[is_scattered ? scattered() : group];
      const bool are_found = !scales.table.empty() ? find_indices(weights, scale, scales.table, codes + first)
                             : scales.are_float8
                                 ? find_float8(weights, scale, codes + first)
                                 : find_group_codes(weights, scale, minimum, codes + first, bounds);
      if (!are_found) return std::nullopt;
      group += groups == 0 || is_scattered ? 0 : 1;
    }
  }
  if (scales.are_float8) found.fit_nibbles = false;
  if (scales.are_float8 || !scales.table.empty()) return found;
  found.fit_nibbles =
      has_minimums ? bounds.least >= 0 && bounds.most < 16 : bounds.least >= -8 && bounds.most < 8;
  return found;
}

}  // namespace

PackedLinear::PackedLinear(const Tensor& weight, const std::optional<Tensor>& bias,
                           const WeightScales& scales)
    : depth_(weight.dim(1)),
      stride_((weight.dim(0) + kBlock - 1) / kBlock * kBlock),
      group_(std::max<int64_t>(depth_, 1)),
      bias_(DType::kFloat32, {stride_}) {
  const std::span<float> biases = bias_.values<float>();
  std::ranges::fill(biases, -0.0F);
  if (bias) std::ranges::copy(bias->values<float>(), biases.begin());
  is_finite_ = std::ranges::all_of(weight.values<float>(), [](float x) { return std::isfinite(x); });
  if (pack_codes(weight, scales)) return;
  const bool is_narrow = std::ranges::all_of(
      weight.values<float>(), [](float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x)) == 0; });
  weights_ = Tensor(is_narrow ? DType::kBFloat16 : DType::kFloat32, {stride_ * depth_});
  is_narrow ? pack<uint16_t>(weight) : pack<float>(weight);
}

bool PackedLinear::pack_codes(const Tensor& weight, const WeightScales& scales) {
  const int64_t outputs = weight.dim(0);
  if (scales.scales.empty() || scales.group < 1 || depth_ == 0) return false;
  const bool is_scattered = !scales.group_of.empty();
  if (is_scattered && (std::ssize(scales.group_of) != depth_ || !scales.minimums.empty() ||
                       scales.are_float8 || !scales.table.empty()))
    return false;
  const int64_t groups = is_scattered ? *std::ranges::max_element(scales.group_of) + 1
                                      : (depth_ + scales.group - 1) / scales.group;
  const bool is_one = scales.scales.size() == 1 && scales.minimums.empty() && !is_scattered;
  if (!is_one && std::ssize(scales.scales) != outputs * groups) return false;
  const bool are_words = is_scattered || scales.group % kNibbles == 0 || scales.group >= depth_;
  if (!scales.table.empty() && !are_words) return false;
  const auto found = weight_codes(weight, scales, is_one ? 0 : groups);
  if (!found) return false;
  const int8_t* const codes = found->codes.values<int8_t>().data();
  group_ = is_scattered ? depth_ : scales.group;
  groups_ = groups;
  group_of_ = scales.group_of;
  are_nibbles_ = found->fit_nibbles && are_words;
  are_float8_ = scales.are_float8;
  table_ = scales.table;
  weights_ = Tensor(DType::kInt8, {stride_ * bytes_of_output(depth_, DType::kInt8, are_nibbles_)});
  for (int64_t panel = 0; panel < panels(); ++panel) {
    const int64_t first = panel * kPanel;
    const int64_t width = panel_width(panel);
    const int64_t count = std::min(width, outputs - first);
    const int8_t* const from = codes + first * depth_;
    int8_t* const to =
        weights_.values<int8_t>().data() + first * bytes_of_output(depth_, DType::kInt8, are_nibbles_);
    for (int64_t k = 0; k < depth_; k += kNibbles) {
      const auto size = static_cast<size_t>(std::min(kNibbles, depth_ - k));
      for (int64_t i = 0; i < count; ++i) {
        std::array<int8_t, kNibbles> inputs{};
        std::memcpy(inputs.data(), from + i * depth_ + k, size);
        if (are_nibbles_) {
          const uint32_t word = packed_nibbles(inputs);
          std::memcpy(to + (k / kNibbles * width + i) * kWordBytes, &word, sizeof word);
          continue;
        }
        for (size_t j = 0; j < size; ++j) to[(k + static_cast<int64_t>(j)) * width + i] = inputs[j];
      }
    }
  }
  scales_ = packed_groups(scales.scales, outputs);
  if (are_float8_) {
    for (float& scale : scales_.values<float>()) scale *= kFloat8Factor;
  }
  if (!scales.minimums.empty()) minimums_ = packed_groups(scales.minimums, outputs);
  return true;
}

/// Numbers of the groups of each output, or one of all, as panels of outputs.
Tensor PackedLinear::packed_groups(const std::vector<float>& numbers, int64_t outputs) const {
  Tensor packed(DType::kFloat32, {stride_ * groups_});
  float* to = packed.values<float>().data();
  for (int64_t panel = 0; panel < panels(); ++panel) {
    const int64_t first = panel * kPanel;
    const int64_t width = panel_width(panel);
    const int64_t count = std::min(width, outputs - first);
    for (int64_t g = 0; g < groups_; ++g, to += width) {
      for (int64_t i = 0; i < count; ++i)
        to[i] = numbers[numbers.size() == 1 ? 0 : static_cast<size_t>((first + i) * groups_ + g)];
    }
  }
  return packed;
}

template <class Word>
void PackedLinear::pack(const Tensor& weight) {
  const float* const from = weight.values<float>().data();
  auto* to = reinterpret_cast<Word*>(weights_.bytes().data());
  for (int64_t panel = 0; panel < panels(); ++panel) {
    const int64_t first = panel * kPanel;
    const int64_t width = panel_width(panel);
    const int64_t count = std::min(width, weight.dim(0) - first);
    for (int64_t k = 0; k < depth_; ++k, to += width) {
      for (int64_t i = 0; i < count; ++i) {
        const float x = from[(first + i) * depth_ + k];
        if constexpr (std::is_same_v<Word, float>) {
          to[i] = x;
        } else {
          to[i] = static_cast<Word>(std::bit_cast<uint32_t>(x) >> 16U);
        }
      }
    }
  }
}

int64_t PackedLinear::panel_width(int64_t panel) const {
  return panel + 1 < panels() ? kPanel : stride_ - panel * kPanel;
}

int64_t PackedLinear::panels() const { return std::max<int64_t>(0, stride_ - kLeastOfLast) / kPanel + 1; }

void PackedLinear::panel_sums(int64_t panel, const float* inputs, int64_t rows, float* results) const {
  const int64_t first = panel * kPanel;
  const std::byte* const weights =
      weights_.bytes().data() + first * bytes_of_output(depth_, weights_.dtype(), are_nibbles_);
  PanelSums sums{.inputs = inputs,
                 .weights = nullptr,
                 .bias = bias_.values<float>().data() + first,
                 .results = results + first,
                 .rows = rows,
                 .depth = depth_,
                 .width = panel_width(panel),
                 .stride = stride_,
                 .group = group_,
                 .are_nibbles = are_nibbles_,
                 .are_float8 = are_float8_,
                 .table = table_.empty() ? nullptr : table_.data(),
                 .group_of = group_of_.empty() ? nullptr : group_of_.data()};
  switch (weights_.dtype()) {
    case DType::kInt8:
      sums.codes = reinterpret_cast<const int8_t*>(weights);
      sums.scales = scales_.values<float>().data() + first * groups_;
      if (minimums_.numel() > 0) sums.minimums = minimums_.values<float>().data() + first * groups_;
      break;
    case DType::kBFloat16:
      sums.halves = reinterpret_cast<const uint16_t*>(weights);
      break;
    default:
      sums.weights = reinterpret_cast<const float*>(weights);
  }
  HWY_DYNAMIC_DISPATCH(SumPanel)(sums);
}

void PackedLinear::sums(const float* inputs, int64_t rows, float* results, bool backwards) const {
  const int64_t products = rows * depth_ * stride_;
  if (products < 2 * kSplit) {
    for (int64_t i = 0; i < panels(); ++i)
      panel_sums(backwards ? panels() - 1 - i : i, inputs, rows, results);
    return;
  }
  const int64_t parts = (rows + kRows - 1) / kRows;
  const int64_t tasks = panels() * parts;
  const int64_t grain = std::max<int64_t>(1, kSplit * tasks / products);
  parallel_for(tasks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t task = backwards ? begin + end - 1 - i : i;
      const int64_t row = task % parts * kRows;
      panel_sums(task / parts, inputs + row * depth_, std::min(kRows, rows - row), results + row * stride_);
    }
  });
}

void PackedLinear::sums_of_zeros(int64_t rows, float* results) const {
  if (!is_finite_) {
    const std::vector<float> zeros(static_cast<size_t>(rows * depth_));
    return sums(zeros.data(), rows, results);
  }
  const float* const bias = bias_.values<float>().data();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < stride_; ++i) results[row * stride_ + i] = 0.0F + bias[i];
  }
}

}  // namespace detent
#endif  // HWY_ONCE
