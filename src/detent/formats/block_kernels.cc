#include "detent/formats/block_kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/block_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "detent/formats/all-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

using BlockTag = hn::ScalableTag<float>;
using BlockVec = hn::Vec<BlockTag>;

/// Blocks of at least so many contiguous elements are taken one by one, narrower ones as lanes.
constexpr int64_t kWideBlock = 16;
/// Of narrow blocks: tile_columns() at most.
constexpr size_t kMaxTile = 512;

/// 0 for infinities and NaN.
HWY_INLINE BlockVec FiniteMagnitude(BlockTag d, BlockVec x) {
  const BlockVec magnitude = hn::Abs(x);
  return hn::IfThenElseZero(hn::Le(magnitude, hn::Set(d, std::numeric_limits<float>::max())), magnitude);
}

#if HWY_TARGET != HWY_SCALAR
/// The largest lane of each of four vectors. Pairs are interleaved, so that two steps leave the maxima of all
/// four side by side in each 16 bytes; then halves are compared.
template <class D>
HWY_INLINE void StoreLargestLanes(D d, hn::Vec<D> largest_of_four, float* to) {
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<D> half;
    const auto larger = hn::Max(hn::LowerHalf(half, largest_of_four), hn::UpperHalf(half, largest_of_four));
    StoreLargestLanes(half, larger, to);
  } else {
    hn::StoreU(largest_of_four, d, to);
  }
}

HWY_INLINE BlockVec InterleavedMax(BlockTag d, BlockVec a, BlockVec b) {
  return hn::Max(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
}
#endif

HWY_INLINE BlockVec LoadPartial(BlockTag d, const float* from, size_t count) {
  HWY_ALIGN float buffer[hn::MaxLanes(d)] = {};
  std::memcpy(buffer, from, count * sizeof(float));
  return hn::Load(d, buffer);
}

HWY_INLINE void StorePartial(BlockTag d, BlockVec v, float* to, size_t count) {
  HWY_ALIGN float buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  std::memcpy(to, buffer, count * sizeof(float));
}

/// What is written: as BlockOutput says, or elements.
enum class Written { kValue, kUnsaturated, kElement };

/// What elements are written with: see round_elements.
struct ElementOutput {
  const BlockScales* scales = nullptr;
  uint8_t* scale_codes = nullptr;
};

/// One tensor's work. `kKind` is what is written, `kStream` how. `output` points to where element `first`
/// belongs.
template <class Parameters, Written kKind, bool kStream>
class BlockRounder {
  static constexpr BlockTag d{};
  using Kernel = decltype(MakeBlockKernel(BlockTag(), std::declval<const Parameters&>()));
  using Shared = typename Kernel::Shared;

 public:
  BlockRounder(const Parameters& parameters, const BlockLayout& layout, const float* input, float* output,
               int64_t first = 0, const ElementOutput& elements = {})
      : parameters_(parameters),
        kernel_(MakeBlockKernel(d, parameters)),
        layout_(layout),
        input_(input),
        output_(output),
        first_(first),
        elements_(elements) {}

  void RoundUnit(const BlockLayout::Unit& unit) const {
    const int64_t width = layout_.block_columns();
    if (width < kWideBlock) {
      const int64_t tile = layout_.tile_columns();
      for (int64_t at = unit.begin; at < unit.end; at += tile)
        RoundTile(unit, at, std::min(tile, unit.end - at));
    } else if (layout_.band_rows() == 1) {
      RoundRow(unit);
    } else {
      for (int64_t at = unit.begin; at < unit.end; at += width) {
        RoundBox(unit, at, static_cast<size_t>(std::min(width, unit.end - at)));
      }
    }
  }

 private:
  /// What a block's elements need.
  struct OfBlock {
    BlockShared shared;
    const BlockScale* scale;
  };

  float* Output(int64_t index) const { return output_ + (index - first_); }

  /// The number of the unit's block that begins at `column`.
  int64_t BlockAt(const BlockLayout::Unit& unit, int64_t column) const {
    return unit.block + (column - unit.begin) / layout_.block_columns();
  }

  HWY_INLINE OfBlock Share(float max, int64_t block) const {
    const auto& [shared, code] = parameters_.entry(max);
    const BlockScale* scale = nullptr;
    if constexpr (kKind == Written::kElement) {
      elements_.scale_codes[block] = code;
      scale = &(*elements_.scales)[code];
    }
    return {shared, scale};
  }

  template <bool kPlain>
  HWY_INLINE BlockVec Round(BlockVec x, const Shared& shared) const {
    if constexpr (kKind == Written::kElement && requires { &Kernel::RoundElement; }) {
      return kernel_.RoundElement(d, x, shared);
    } else if constexpr (kPlain && requires { &Kernel::RoundPlain; }) {
      return kernel_.RoundPlain(d, x, shared);
    } else {
      return kernel_.Round(d, x, shared);
    }
  }

  template <bool kPlain>
  HWY_INLINE BlockVec Element(BlockVec x, const Shared& shared, BlockVec to_element) const {
    if constexpr (kKind == Written::kElement) {
      return hn::Mul(Round<kPlain>(x, shared), to_element);
    } else if constexpr (kKind == Written::kValue) {
      return Round<kPlain>(x, shared);
    } else {
      const auto held = hn::Or(kernel_.Unsaturated(d, x, shared), hn::IsNaN(x));
      return hn::IfThenElseZero(held, hn::Set(d, 1.0F));
    }
  }

  static HWY_INLINE void Write(BlockVec v, float* to) {
    if constexpr (kStream) {
      hn::Stream(v, d, to);
    } else {
      hn::StoreU(v, d, to);
    }
  }

#if HWY_TARGET != HWY_SCALAR
  /// Four adjacent blocks, from `block` on.
  HWY_INLINE void RoundFour(const float* input, float* output, int64_t block) const {
    const auto width = static_cast<size_t>(layout_.block_columns());
    const BlockVec first = LargestOf(input, width, hn::Zero(d));
    const BlockVec second = LargestOf(input + width, width, hn::Zero(d));
    const BlockVec third = LargestOf(input + 2 * width, width, hn::Zero(d));
    const BlockVec fourth = LargestOf(input + 3 * width, width, hn::Zero(d));
    const BlockVec odd = InterleavedMax(d, first, third);
    const BlockVec even = InterleavedMax(d, second, fourth);
    HWY_ALIGN float max[4];
    StoreLargestLanes(d, InterleavedMax(d, odd, even), max);
    for (size_t i = 0; i < 4; ++i) {
      const OfBlock of_block = Share(max[i], block + static_cast<int64_t>(i));
      RoundRun(of_block, input + i * width, output + i * width, width);
    }
  }
#endif

  /// A unit of blocks that are one row high, and wide.
  void RoundRow(const BlockLayout::Unit& unit) const {
    const int64_t width = layout_.block_columns();
    const float* input = input_ + unit.offset;
    float* output = Output(unit.offset);
    int64_t at = unit.begin;
    int64_t block = unit.block;
#if HWY_TARGET != HWY_SCALAR
    for (; at + 4 * width <= unit.end; at += 4 * width, block += 4) {
      RoundFour(input + at, output + at, block);
    }
#endif
    for (; at < unit.end; at += width, ++block) {
      const auto count = static_cast<size_t>(std::min(width, unit.end - at));
      const BlockVec largest = LargestOf(input + at, count, hn::Zero(d));
      RoundRun(Share(hn::GetLane(hn::MaxOfLanes(d, largest)), block), input + at, output + at, count);
    }
  }

  static HWY_INLINE Shared Broadcast(const BlockShared& shared) {
    return Kernel::Collect([&](size_t k) { return hn::Set(d, shared[k]); });
  }

  static HWY_INLINE BlockVec LargestOf(const float* from, size_t count, BlockVec largest) {
    const size_t lanes = hn::Lanes(d);
    size_t i = 0;
    for (; i + lanes <= count; i += lanes)
      largest = hn::Max(largest, FiniteMagnitude(d, hn::LoadU(d, from + i)));
    if (i < count) largest = hn::Max(largest, FiniteMagnitude(d, LoadPartial(d, from + i, count - i)));
    return largest;
  }

  bool IsPlain(const BlockShared& shared) const {
    if constexpr (requires { &Kernel::RoundPlain; }) return kernel_.IsPlain(shared);
    return false;
  }

  HWY_INLINE void RoundRun(const OfBlock& of_block, const float* input, float* output, size_t count) const {
    if (IsPlain(of_block.shared)) {
      RoundRunAs<true>(of_block, input, output, count);
    } else {
      RoundRunAs<false>(of_block, input, output, count);
    }
    if constexpr (kKind == Written::kElement) {
      if (of_block.scale->plain_element) return;
      for (size_t i = 0; i < count; ++i) output[i] = of_block.scale->element_of(output[i]);
    }
  }

  /// What rounded values are multiplied with: 1 where the scale is left to element_of.
  static HWY_INLINE float ToElement(const BlockScale* scale) {
    return scale == nullptr || !scale->plain_element ? 1.0F : scale->to_element;
  }

  template <bool kPlain>
  HWY_INLINE void RoundRunAs(const OfBlock& of_block, const float* input, float* output, size_t count) const {
    const Shared shared = Broadcast(of_block.shared);
    const BlockVec to_element = hn::Set(d, ToElement(of_block.scale));
    const size_t lanes = hn::Lanes(d);
    size_t i = 0;
    for (; i + lanes <= count; i += lanes)
      Write(Element<kPlain>(hn::LoadU(d, input + i), shared, to_element), output + i);
    if (i < count) {
      const BlockVec x = LoadPartial(d, input + i, count - i);
      StorePartial(d, Element<kPlain>(x, shared, to_element), output + i, count - i);
    }
  }

  /// One block of several rows, wide.
  void RoundBox(const BlockLayout::Unit& unit, int64_t column, size_t count) const {
    BlockVec largest = hn::Zero(d);
    for_each_row(layout_, unit,
                 [&](int64_t row) { largest = LargestOf(input_ + row + column, count, largest); });
    const OfBlock of_block = Share(hn::GetLane(hn::MaxOfLanes(d, largest)), BlockAt(unit, column));
    for_each_row(layout_, unit, [&](int64_t row) {
      RoundRun(of_block, input_ + row + column, Output(row + column), count);
    });
  }

  /// What each column of a tile shares.
  struct Tile {
    bool plain = true;
    bool plain_element = true;
    HWY_ALIGN float largest[kMaxTile];
    HWY_ALIGN float shared[std::tuple_size_v<BlockShared>][kMaxTile];
    HWY_ALIGN float to_element[kMaxTile];
    const BlockScale* scale[kMaxTile];
  };

  /// The blocks in the columns [column, column + count), side by side: a vector holds lanes of several
  /// blocks.
  void RoundTile(const BlockLayout::Unit& unit, int64_t column, int64_t count) const {
    Tile tile;
    const auto size = static_cast<size_t>(count);
    std::fill_n(tile.largest, size, 0.0F);
    for_each_row(layout_, unit,
                 [&](int64_t row) { UpdateLargest(input_ + row + column, tile.largest, size); });
    Share(tile, size, BlockAt(unit, column));
    for_each_row(layout_, unit,
                 [&](int64_t row) { RoundTileRow(tile, input_ + row + column, Output(row + column), size); });
  }

  static void UpdateLargest(const float* from, float* largest, size_t count) {
    const size_t lanes = hn::Lanes(d);
    size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const BlockVec x = FiniteMagnitude(d, hn::LoadU(d, from + i));
      hn::Store(hn::Max(hn::Load(d, largest + i), x), d, largest + i);
    }
    if (i == count) return;
    const BlockVec x = FiniteMagnitude(d, LoadPartial(d, from + i, count - i));
    StorePartial(d, hn::Max(hn::Load(d, largest + i), x), largest + i, count - i);
  }

  void Share(Tile& tile, size_t count, int64_t block) const {
    const auto width = static_cast<size_t>(layout_.block_columns());
    for (size_t begin = 0; begin < count; begin += width, ++block) {
      const size_t end = std::min(count, begin + width);
      const auto [shared, scale] = Share(*std::max_element(tile.largest + begin, tile.largest + end), block);
      tile.plain = tile.plain && IsPlain(shared);
      for (size_t i = begin; i < end; ++i) {
        for (size_t k = 0; k < shared.size(); ++k) tile.shared[k][i] = shared[k];
      }
      if constexpr (kKind == Written::kElement) {
        tile.plain_element = tile.plain_element && scale->plain_element;
        std::fill(tile.scale + begin, tile.scale + end, scale);
      }
    }
    if constexpr (kKind == Written::kElement) {
      for (size_t i = 0; i < count; ++i)
        tile.to_element[i] = tile.plain_element ? tile.scale[i]->to_element : 1;
    }
  }

  HWY_INLINE static Shared SharedAt(const Tile& tile, size_t i) {
    return Kernel::Collect([&](size_t k) HWY_ATTR { return hn::Load(d, tile.shared[k] + i); });
  }

  static HWY_INLINE BlockVec ToElementAt(const Tile& tile, size_t i) {
    if constexpr (kKind == Written::kElement) return hn::Load(d, tile.to_element + i);
    return hn::Zero(d);
  }

  void RoundTileRow(const Tile& tile, const float* input, float* output, size_t count) const {
    if (tile.plain) {
      RoundTileRowAs<true>(tile, input, output, count);
    } else {
      RoundTileRowAs<false>(tile, input, output, count);
    }
    if constexpr (kKind == Written::kElement) {
      if (tile.plain_element) return;
      for (size_t i = 0; i < count; ++i) output[i] = tile.scale[i]->element_of(output[i]);
    }
  }

  template <bool kPlain>
  HWY_INLINE void RoundTileRowAs(const Tile& tile, const float* input, float* output, size_t count) const {
    const size_t lanes = hn::Lanes(d);
    size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const BlockVec x = hn::LoadU(d, input + i);
      Write(Element<kPlain>(x, SharedAt(tile, i), ToElementAt(tile, i)), output + i);
    }
    if (i == count) return;
    const BlockVec x = LoadPartial(d, input + i, count - i);
    StorePartial(d, Element<kPlain>(x, SharedAt(tile, i), ToElementAt(tile, i)), output + i, count - i);
  }

  const Parameters& parameters_;
  Kernel kernel_;
  const BlockLayout& layout_;
  const float* input_;
  float* output_;
  int64_t first_;
  ElementOutput elements_;
};

template <class Rounder>
void RoundUnits(const Rounder& rounder, const BlockLayout& layout, int64_t begin, int64_t end) {
  BlockLayout::Unit unit;
  for (int64_t i = begin; i < end; ++i) {
    layout.locate(i, unit);
    rounder.RoundUnit(unit);
  }
}

/// Whether all that is written in one go begins at a multiple of the vector length.
bool CanStream(const BlockLayout& layout, const float* output) {
  constexpr int64_t kMaxLanes = HWY_MAX_BYTES / sizeof(float);
  const int64_t width = layout.block_columns();
  const bool whole_blocks = width < kWideBlock || width == layout.columns() || width % kMaxLanes == 0;
  const bool whole_rows = layout.outer().empty() || layout.columns() % kMaxLanes == 0;
  return whole_blocks && whole_rows && reinterpret_cast<uintptr_t>(output) % HWY_MAX_BYTES == 0;
}

void RoundBlocks(const GroupParameters& parameters, const BlockLayout& layout, BlockOutput kind,
                 const float* input, float* output, int64_t begin, int64_t end, bool stream) {
  std::visit(
      [&]<class P>(const std::vector<P>& groups) {
        if constexpr (requires { P::kByBlocks; }) {
          const P& of_tensor = groups[0];
          if (kind == BlockOutput::kUnsaturated) {
            const BlockRounder<P, Written::kUnsaturated, false> rounder(of_tensor, layout, input, output);
            RoundUnits(rounder, layout, begin, end);
          } else if (stream && CanStream(layout, output)) {
            const BlockRounder<P, Written::kValue, true> rounder(of_tensor, layout, input, output);
            RoundUnits(rounder, layout, begin, end);
            hwy::FlushStream();
          } else {
            const BlockRounder<P, Written::kValue, false> rounder(of_tensor, layout, input, output);
            RoundUnits(rounder, layout, begin, end);
          }
        }
      },
      parameters);
}

void RoundElements(const GroupParameters& parameters, const BlockLayout& layout, const BlockScales& scales,
                   const float* input, float* output, int64_t first, uint8_t* scale_codes, int64_t begin,
                   int64_t end) {
  std::visit(
      [&]<class P>(const std::vector<P>& groups) {
        if constexpr (requires { P::kByBlocks; }) {
          const BlockRounder<P, Written::kElement, false> rounder(groups[0], layout, input, output, first,
                                                                  {&scales, scale_codes});
          RoundUnits(rounder, layout, begin, end);
        }
      },
      parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(RoundBlocks);
HWY_EXPORT(RoundElements);

void round_blocks(const GroupParameters& parameters, const BlockLayout& layout, BlockOutput kind,
                  const float* input, float* output, int64_t begin, int64_t end, bool stream) {
  HWY_DYNAMIC_DISPATCH(RoundBlocks)(parameters, layout, kind, input, output, begin, end, stream);
}

void round_elements(const GroupParameters& parameters, const BlockLayout& layout, const BlockScales& scales,
                    const float* input, float* output, int64_t first, uint8_t* scale_codes, int64_t begin,
                    int64_t end) {
  HWY_DYNAMIC_DISPATCH(RoundElements)
  (parameters, layout, scales, input, output, first, scale_codes, begin, end);
}

}  // namespace detent
#endif  // HWY_ONCE
