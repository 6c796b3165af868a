#include "detent/formats/block_scaling.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/block_scaling.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

// The loops are plain C++: the compiler vectorises them with the instructions of each target.
HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Columns that are taken at a time where blocks are narrow.
constexpr int64_t kTile = 512;
/// Blocks of at least so many contiguous elements are taken one by one.
constexpr int64_t kWideBlock = 16;

HWY_INLINE void ScaleRun(const BlockScale& scale, float* HWY_RESTRICT values, int64_t count) {
  if (scale.plain_value) {
    const float factor = scale.to_value;
    for (int64_t i = 0; i < count; ++i) values[i] *= factor;
  } else {
    for (int64_t i = 0; i < count; ++i) values[i] = scale.value_of(values[i]);
  }
}

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

HWY_INLINE void ScaleTileRow(const TileScales& tile, float* HWY_RESTRICT values, int64_t count) {
  if (tile.plain) {
    for (int64_t i = 0; i < count; ++i) values[i] *= tile.factor[i];
  } else {
    for (int64_t i = 0; i < count; ++i) values[i] = tile.scale[i]->value_of(values[i]);
  }
}

void ScaleUnit(const BlockLayout& layout, const BlockLayout::Unit& unit, const BlockScales& scales,
               const uint8_t* scale_codes, float* values) {
  const int64_t width = layout.block_columns();
  if (width >= kWideBlock) {
    for_each_row(layout, unit, [&](int64_t row) {
      const uint8_t* code = scale_codes + unit.block;
      for (int64_t at = unit.begin; at < unit.end; at += width, ++code) {
        ScaleRun(scales[*code], values + row + at, std::min(width, unit.end - at));
      }
    });
    return;
  }
  TileScales tile;
  for (int64_t at = unit.begin; at < unit.end; at += kTile) {
    const int64_t count = std::min(kTile, unit.end - at);
    const int64_t before = at - unit.begin;
    CollectScales(scales, scale_codes + unit.block + before / width, width, before % width, count, tile);
    for_each_row(layout, unit, [&](int64_t row) { ScaleTileRow(tile, values + row + at, count); });
  }
}

void ScaleElements(const BlockLayout& layout, const BlockScales& scales, const uint8_t* scale_codes,
                   float* values, int64_t begin, int64_t end) {
  BlockLayout::Unit unit;
  for (int64_t i = begin; i < end; ++i) {
    layout.locate(i, unit);
    ScaleUnit(layout, unit, scales, scale_codes, values);
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(ScaleElements);

void scale_elements(const BlockLayout& layout, const BlockScales& scales, const uint8_t* scale_codes,
                    float* values, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(ScaleElements)(layout, scales, scale_codes, values, begin, end);
}

}  // namespace detent
#endif  // HWY_ONCE
