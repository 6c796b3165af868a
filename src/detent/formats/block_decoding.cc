#include "detent/formats/block_decoding.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/block_decoding.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "detent/formats/code_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ScaleTag = hn::ScalableTag<float>;
using ScaleVec = hn::Vec<ScaleTag>;
using CodeTag = hn::RebindToSigned<ScaleTag>;
using CodeVec = hn::Vec<CodeTag>;

/// Columns that are taken at a time where blocks are narrow.
constexpr int64_t kTile = 512;

/// The scale of every column of a tile.
struct TileScales {
  bool plain = true;
  const BlockScale* scale[kTile];
  float factor[kTile];
};

/// `block` is the tile's first, of which `taken` columns lie before the tile.
void CollectScales(const BlockScales& scales, const uint8_t* codes, int64_t width, int64_t taken,
                   int64_t count, TileScales& tile) {
  tile.plain = true;
  for (int64_t begin = 0; begin < count; ++codes) {
    const int64_t end = std::min(count, begin + width - taken);
    const BlockScale& scale = scales[*codes];
    tile.plain = tile.plain && scale.plain_value;
    std::fill(tile.scale + begin, tile.scale + end, &scale);
    std::fill(tile.factor + begin, tile.factor + end, scale.to_value);
    begin = end;
    taken = 0;
  }
}

/// Elements by their codes.
class ElementValues {
  static constexpr ScaleTag d{};
  static constexpr CodeTag di{};

 public:
  explicit ElementValues(const ElementForm& form)
      : twos_complement_(form.twos_complement),
        has_nan_(form.largest < std::numeric_limits<int32_t>::max()),
        unused_bits_(32 - form.width),
        dropped_bits_(23 - form.mantissa_bits),
        number_bits_(hn::Set(di, (int32_t{1} << (form.width - 1)) - 1)),
        base_(hn::Set(di, (form.min_exponent - 1 + 127) * (1 << 23) + form.first * (1 << dropped_bits_))),
        first_normal_(hn::Set(di, (1 << form.mantissa_bits) - form.first)),
        largest_(hn::Set(di, form.largest)),
        least_(hn::Set(d, form.normal ? power_of_two(form.min_exponent) : 0.0F)) {}

  HWY_INLINE ScaleVec Of(CodeVec codes) const {
    const CodeVec shifted = hn::ShiftLeftSame(codes, unused_bits_);
    if (twos_complement_) return hn::Mul(hn::ConvertTo(d, hn::ShiftRightSame(shifted, unused_bits_)), least_);
    return hn::CopySignToAbs(Magnitude(hn::And(codes, number_bits_)), hn::BitCast(d, shifted));
  }

 private:
  /// The number of a magnitude in the mantissa and exponent of a float32: those before the normal ones come
  /// out in the binade beneath, as (1 + m / 2^M) * 2^(e - 1) instead of m / 2^M * 2^e.
  HWY_INLINE ScaleVec Magnitude(CodeVec number) const {
    const ScaleVec normal = hn::BitCast(d, hn::Add(hn::ShiftLeftSame(number, dropped_bits_), base_));
    const ScaleVec subnormal = hn::Sub(hn::Add(normal, normal), least_);
    const auto is_subnormal = hn::RebindMask(d, hn::Lt(number, first_normal_));
    const ScaleVec magnitude = hn::IfThenElse(is_subnormal, subnormal, normal);
    if (!has_nan_) return magnitude;
    const CodeVec infinity = hn::IfThenElseZero(hn::Gt(number, largest_), hn::Set(di, 0x7F800000));
    return hn::Or(magnitude, hn::BitCast(d, infinity));
  }

  bool twos_complement_;
  bool has_nan_;
  int unused_bits_;
  int dropped_bits_;
  CodeVec number_bits_, base_, first_normal_, largest_;
  ScaleVec least_;
};

/// One tensor's work. `kStream` is how values are written.
template <bool kStream>
class BlockDecoder {
  static constexpr ScaleTag d{};
  static constexpr CodeTag di{};

 public:
  BlockDecoder(const BlockLayout& layout, const BlockCodeInput& input, const uint32_t* codes, int64_t first,
               float* values)
      : layout_(layout),
        input_(input),
        elements_(input.form),
        codes_(codes),
        first_(first),
        values_(values) {}

  void DecodeUnit(const BlockLayout::Unit& unit) const {
    const int64_t width = layout_.block_columns();
    if (width >= BlockLayout::kWide) {
      for_each_row(layout_, unit, [&](int64_t row) HWY_ATTR { DecodeRow(unit, row); });
      return;
    }
    TileScales tile;
    for (int64_t at = unit.begin; at < unit.end; at += kTile) {
      const int64_t count = std::min(kTile, unit.end - at);
      const int64_t before = at - unit.begin;
      const uint8_t* code = input_.scale_codes + unit.block + before / width;
      CollectScales(input_.scales, code, width, before % width, count, tile);
      for_each_row(layout_, unit, [&](int64_t row) { DecodeTileRow(tile, row + at, count); });
    }
  }

 private:
  /// The columns of a unit in the row that begins at `row`, in wide blocks.
  void DecodeRow(const BlockLayout::Unit& unit, int64_t row) const {
    const int64_t width = layout_.block_columns();
    const uint8_t* code = input_.scale_codes + unit.block;
    const BlockScale* scales = input_.scales.data();
    const bool normal = input_.form.normal;
    const ElementValues elements = elements_;  // in registers
    for (int64_t at = unit.begin; at < unit.end; at += width, ++code) {
      const BlockScale& scale = scales[*code];
      const int64_t count = std::min(width, unit.end - at);
      if (scale.plain_value && normal) {
        const ScaleVec factor = hn::Set(d, scale.to_value);
        DecodePlain(
            elements, [&](int64_t /*i*/) HWY_ATTR { return factor; }, row + at, count);
      } else {
        DecodeAny([&](int64_t /*i*/) { return &scale; }, row + at, count);
      }
    }
  }

  HWY_INLINE void DecodeTileRow(const TileScales& tile, int64_t at, int64_t count) const {
    if (tile.plain && input_.form.normal) {
      DecodePlain(
          elements_, [&](int64_t i) HWY_ATTR { return hn::LoadU(d, tile.factor + i); }, at, count);
    } else {
      DecodeAny([&](int64_t i) { return tile.scale[i]; }, at, count);
    }
  }

  /// factor_at(i) is for the elements from at + i on; lanes beyond `count` mean nothing.
  template <class FactorAt>
  HWY_INLINE void DecodePlain(const ElementValues& elements, const FactorAt& factor_at, int64_t at,
                              int64_t count) const {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto* from = reinterpret_cast<const int32_t*>(codes_ + (at - first_));
    float* to = values_ + at;
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const ScaleVec value = hn::Mul(elements.Of(hn::LoadU(di, from + i)), factor_at(i));
      if constexpr (kStream) {
        hn::Stream(value, d, to + i);
      } else {
        hn::StoreU(value, d, to + i);
      }
    }
    if (i == count) return;
    HWY_ALIGN int32_t last_codes[hn::MaxLanes(d)] = {};
    HWY_ALIGN float last[hn::MaxLanes(d)];
    std::copy(from + i, from + count, last_codes);
    hn::Store(hn::Mul(elements.Of(hn::Load(di, last_codes)), factor_at(i)), d, last);
    std::copy_n(last, count - i, to + i);
  }

  /// scale_at(i) is that of element at + i.
  template <class ScaleAt>
  HWY_NOINLINE void DecodeAny(const ScaleAt& scale_at, int64_t at, int64_t count) const {
    float elements[kTile];
    for (int64_t begin = 0; begin < count; begin += kTile) {
      const int64_t size = std::min(kTile, count - begin);
      value_range(input_.coders, {1, 1, size}, codes_ + (at + begin - first_), elements, 0, size);
      for (int64_t i = 0; i < size; ++i) values_[at + begin + i] = scale_at(begin + i)->value_of(elements[i]);
    }
  }

  const BlockLayout& layout_;
  const BlockCodeInput& input_;
  ElementValues elements_;
  const uint32_t* codes_;
  int64_t first_;
  float* values_;
};

template <bool kStream>
void DecodeUnits(const BlockDecoder<kStream>& decoder, const BlockLayout& layout, int64_t begin,
                 int64_t end) {
  BlockLayout::Unit unit;
  for (int64_t i = begin; i < end; ++i) {
    layout.locate(i, unit);
    decoder.DecodeUnit(unit);
  }
}

void ValueBlocks(const BlockLayout& layout, const BlockCodeInput& input, const uint32_t* codes, int64_t first,
                 float* values, int64_t begin, int64_t end, bool stream) {
  if (stream && layout.in_whole_vectors(values, HWY_MAX_BYTES)) {
    DecodeUnits(BlockDecoder<true>(layout, input, codes, first, values), layout, begin, end);
    hwy::FlushStream();
  } else {
    DecodeUnits(BlockDecoder<false>(layout, input, codes, first, values), layout, begin, end);
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(ValueBlocks);

void value_blocks(const BlockLayout& layout, const BlockCodeInput& input, const uint32_t* codes,
                  int64_t first, float* values, int64_t begin, int64_t end, bool stream) {
  HWY_DYNAMIC_DISPATCH(ValueBlocks)(layout, input, codes, first, values, begin, end, stream);
}

}  // namespace detent
#endif  // HWY_ONCE
