#include "detent/formats/block_scaling.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/block_scaling.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ScaleTag = hn::ScalableTag<float>;
using ScaleVec = hn::Vec<ScaleTag>;

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

/// One tensor's work. `kStream` is how values are written.
template <bool kStream>
class BlockScaler {
  static constexpr ScaleTag d{};

 public:
  BlockScaler(const BlockLayout& layout, const BlockScales& scales, const uint8_t* scale_codes,
              const float* elements, int64_t first, float* values)
      : layout_(layout),
        scales_(scales),
        scale_codes_(scale_codes),
        elements_(elements),
        first_(first),
        values_(values) {}

  void ScaleUnit(const BlockLayout::Unit& unit) const {
    const int64_t width = layout_.block_columns();
    if (width >= BlockLayout::kWide) {
      for_each_row(layout_, unit, [&](int64_t row) {
        const uint8_t* code = scale_codes_ + unit.block;
        for (int64_t at = unit.begin; at < unit.end; at += width, ++code)
          ScaleRun(scales_[*code], row + at, std::min(width, unit.end - at));
      });
      return;
    }
    TileScales tile;
    for (int64_t at = unit.begin; at < unit.end; at += kTile) {
      const int64_t count = std::min(kTile, unit.end - at);
      const int64_t before = at - unit.begin;
      CollectScales(scales_, scale_codes_ + unit.block + before / width, width, before % width, count, tile);
      for_each_row(layout_, unit, [&](int64_t row) { ScaleTileRow(tile, row + at, count); });
    }
  }

 private:
  /// The elements [at, at + count), all of one block.
  HWY_INLINE void ScaleRun(const BlockScale& scale, int64_t at, int64_t count) const {
    if (scale.plain_value) {
      const ScaleVec factor = hn::Set(d, scale.to_value);
      Multiply([&](int64_t /*i*/) HWY_ATTR { return factor; }, at, count);
    } else {
      for (int64_t i = at; i < at + count; ++i) values_[i] = scale.value_of(elements_[i - first_]);
    }
  }

  HWY_INLINE void ScaleTileRow(const TileScales& tile, int64_t at, int64_t count) const {
    if (tile.plain) {
      Multiply([&](int64_t i) HWY_ATTR { return hn::LoadU(d, tile.factor + i); }, at, count);
    } else {
      for (int64_t i = 0; i < count; ++i)
        values_[at + i] = tile.scale[i]->value_of(elements_[at + i - first_]);
    }
  }

  /// factor_at(i) is for the elements from at + i on; lanes beyond `count` mean nothing.
  template <class FactorAt>
  HWY_INLINE void Multiply(const FactorAt& factor_at, int64_t at, int64_t count) const {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const float* from = elements_ + (at - first_);
    float* to = values_ + at;
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const ScaleVec value = hn::Mul(hn::LoadU(d, from + i), factor_at(i));
      if constexpr (kStream) {
        hn::Stream(value, d, to + i);
      } else {
        hn::StoreU(value, d, to + i);
      }
    }
    if (i == count) return;
    HWY_ALIGN float factors[hn::MaxLanes(d)];
    hn::Store(factor_at(i), d, factors);
    for (int64_t k = i; k < count; ++k) to[k] = from[k] * factors[k - i];
  }

  const BlockLayout& layout_;
  const BlockScales& scales_;
  const uint8_t* scale_codes_;
  const float* elements_;
  int64_t first_;
  float* values_;
};

template <bool kStream>
void ScaleUnits(const BlockScaler<kStream>& scaler, const BlockLayout& layout, int64_t begin, int64_t end) {
  BlockLayout::Unit unit;
  for (int64_t i = begin; i < end; ++i) {
    layout.locate(i, unit);
    scaler.ScaleUnit(unit);
  }
}

void ScaleElements(const BlockLayout& layout, const BlockScales& scales, const uint8_t* scale_codes,
                   const float* elements, int64_t first, float* values, int64_t begin, int64_t end,
                   bool stream) {
  if (stream && layout.in_whole_vectors(values, HWY_MAX_BYTES)) {
    ScaleUnits(BlockScaler<true>(layout, scales, scale_codes, elements, first, values), layout, begin, end);
    hwy::FlushStream();
  } else {
    ScaleUnits(BlockScaler<false>(layout, scales, scale_codes, elements, first, values), layout, begin, end);
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(ScaleElements);

void scale_elements(const BlockLayout& layout, const BlockScales& scales, const uint8_t* scale_codes,
                    const float* elements, int64_t first, float* values, int64_t begin, int64_t end,
                    bool stream) {
  HWY_DYNAMIC_DISPATCH(ScaleElements)
  (layout, scales, scale_codes, elements, first, values, begin, end, stream);
}

}  // namespace detent
#endif  // HWY_ONCE
