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
using IntTag = hn::RebindToSigned<BlockTag>;
using IntVec = hn::Vec<IntTag>;

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
HWY_INLINE void StoreLargestLanes(D d, hn::Vec<D> largest_of_four, hn::TFromD<D>* to) {
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<D> half;
    const auto larger = hn::Max(hn::LowerHalf(half, largest_of_four), hn::UpperHalf(half, largest_of_four));
    StoreLargestLanes(half, larger, to);
  } else {
    hn::StoreU(largest_of_four, d, to);
  }
}

template <class D>
HWY_INLINE hn::Vec<D> InterleavedMax(D d, hn::Vec<D> a, hn::Vec<D> b) {
  return hn::Max(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
}

template <class D>
HWY_INLINE void StoreLargestOfFour(D d, hn::Vec<D> first, hn::Vec<D> second, hn::Vec<D> third,
                                   hn::Vec<D> fourth, hn::TFromD<D>* to) {
  const auto odd = InterleavedMax(d, first, third);
  const auto even = InterleavedMax(d, second, fourth);
  StoreLargestLanes(d, InterleavedMax(d, odd, even), to);
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

/// What many blocks share, by a table of their parameters. `bits` are those of the largest magnitudes.
template <class Kernel, size_t kBlocks>
class TableShares {
 public:
  TableShares(const Kernel& kernel, const int32_t* bits, size_t /*blocks*/)
      : table_(kernel.table()), bits_(bits) {}

  HWY_INLINE bool is_plain(size_t i) const { return table_.is_plain(bits_[i]); }
  HWY_INLINE typename Kernel::Shared at(BlockTag d, size_t i) const {
    const BlockShared& shared = table_.of_plain(bits_[i]);
    return Kernel::Collect([&](size_t k) HWY_ATTR { return hn::Set(d, shared[k]); });
  }

 private:
  const BlockTable& table_;
  const int32_t* bits_;
};

template <class Kernel, size_t kBlocks>
struct SharesOf {
  using type = TableShares<Kernel, kBlocks>;
};
template <class Kernel, size_t kBlocks>
requires requires { typename Kernel::template Shares<kBlocks>; }
struct SharesOf<Kernel, kBlocks> {
  using type = typename Kernel::template Shares<kBlocks>;
};

/// What is written: as BlockOutput says, or elements.
enum class Written { kValue, kUnsaturated, kElement };

/// What elements are written with: see round_elements.
struct ElementOutput {
  const BlockScales* scales = nullptr;
  uint8_t* scale_codes = nullptr;
};

/// One tensor's work, by a block kernel: its Round gives values, from what the blocks share. Shorter ways,
/// where a kernel has them: RoundPlain of blocks that IsPlain; RoundFinite, without a test for NaN, of those
/// that its table() or its own Shares call plain; PlainShared, the shared values of such blocks lane by lane.
///
/// `kKind` is what is written, `kStream` how. `output` points to where element `first`
/// belongs.
template <class Parameters, Written kKind, bool kStream>
class BlockRounder {
  static constexpr BlockTag d{};
  using Kernel = decltype(MakeBlockKernel(BlockTag(), std::declval<const Parameters&>()));
  using Shared = typename Kernel::Shared;
  static constexpr bool kHasFinite = kKind == Written::kValue && requires { &Kernel::RoundFinite; };
  static constexpr bool kRoundsNarrow = kHasFinite && requires { &Kernel::PlainShared; };

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
    const int64_t tile = layout_.tile_columns();
    if (width >= kWideBlock && layout_.band_rows() == 1) {
      RoundRow(unit);
    } else if (kRoundsNarrow && layout_.band_rows() == 1) {
      if constexpr (kRoundsNarrow) RoundNarrowRow(unit);
    } else if (tile <= static_cast<int64_t>(kMaxTile)) {
      for (int64_t at = unit.begin; at < unit.end; at += tile)
        RoundTile(unit, at, std::min(tile, unit.end - at));
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
  /// Blocks whose maxima are found before any is rounded: their long ways to a maximum then overlap.
  static constexpr int64_t kMaxRound = 64;
  static constexpr int64_t kRoundElements = 1024;
  using Shares = typename SharesOf<Kernel, size_t{kMaxRound}>::type;

  /// A multiple of 4 adjacent blocks, at most kMaxRound. Magnitudes are compared by their bits, among which
  /// infinities and NaN are the largest.
  void RoundSeveral(const float* input, float* output, int64_t block, size_t blocks) const {
    const size_t lanes = hn::Lanes(d);
    const auto width = static_cast<size_t>(layout_.block_columns());
    HWY_ALIGN int32_t largest[kMaxRound] = {};
    for (size_t i = 0; i < blocks; i += 4) {
      const float* from = input + i * width;
      const IntTag di;
      StoreLargestOfFour(di, LargestBits(from, width), LargestBits(from + width, width),
                         LargestBits(from + 2 * width, width), LargestBits(from + 3 * width, width),
                         largest + i);
    }
    const Shares shares(kernel_, largest, blocks);
    for (size_t i = 0; i < blocks; ++i, input += width, output += width) {
      if (!shares.is_plain(i)) {
        RoundBlock(input, output, block + static_cast<int64_t>(i), width);
        continue;
      }
      const Shared shared = shares.at(d, i);
      for (size_t at = 0; at < width; at += lanes)
        Write(kernel_.RoundFinite(d, hn::LoadU(d, input + at), shared), output + at);
    }
  }

  static HWY_INLINE IntVec LargestBits(const float* from, size_t width) {
    const IntTag di;
    auto bits = hn::BitCast(di, hn::Abs(hn::LoadU(d, from)));
    for (size_t i = hn::Lanes(d); i < width; i += hn::Lanes(d))
      bits = hn::Max(bits, hn::BitCast(di, hn::Abs(hn::LoadU(d, from + i))));
    return bits;
  }

  /// Four adjacent blocks, from `block` on.
  HWY_INLINE void RoundFour(const float* input, float* output, int64_t block) const {
    const auto width = static_cast<size_t>(layout_.block_columns());
    HWY_ALIGN float max[4];
    StoreLargestOfFour(d, LargestOf(input, width, hn::Zero(d)), LargestOf(input + width, width, hn::Zero(d)),
                       LargestOf(input + 2 * width, width, hn::Zero(d)),
                       LargestOf(input + 3 * width, width, hn::Zero(d)), max);
    for (size_t i = 0; i < 4; ++i) {
      const OfBlock of_block = Share(max[i], block + static_cast<int64_t>(i));
      RoundRun(of_block, input + i * width, output + i * width, width);
    }
  }
#endif

  /// The columns of a unit of one row, in wide blocks.
  void RoundRow(const BlockLayout::Unit& unit) const {
    const float* input = input_ + unit.offset;
    float* output = Output(unit.offset);
    const int64_t width = layout_.block_columns();
    int64_t at = unit.begin;
    int64_t block = unit.block;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (kHasFinite) {
      const int64_t most = std::clamp<int64_t>(kRoundElements / width, 4, kMaxRound) / 4 * 4;
      while (width % static_cast<int64_t>(hn::Lanes(d)) == 0 && at + 4 * width <= unit.end) {
        const int64_t blocks = std::min(most, (unit.end - at) / width / 4 * 4);
        RoundSeveral(input + at, output + at, block, static_cast<size_t>(blocks));
        at += blocks * width;
        block += blocks;
      }
    }
    for (; at + 4 * width <= unit.end; at += 4 * width, block += 4) RoundFour(input + at, output + at, block);
#endif
    for (; at < unit.end; at += width, ++block)
      RoundBlock(input + at, output + at, block, static_cast<size_t>(std::min(width, unit.end - at)));
  }

  void RoundBlock(const float* input, float* output, int64_t block, size_t count) const {
    const BlockVec largest = LargestOf(input, count, hn::Zero(d));
    RoundRun(Share(hn::GetLane(hn::MaxOfLanes(d, largest)), block), input, output, count);
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
    std::fill_n(tile.largest, kMaxTile, 0.0F);
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
    if constexpr (kRoundsNarrow) {
      if (SharePlain(tile, count)) return;
    }
    ShareAny(tile, count, block);
  }

  /// Returns false, with nothing that counts written, where blocks are not plain, or neither whole vectors
  /// nor a power of two that divides one.
  bool SharePlain(Tile& tile, size_t count) const {
    const IntTag di;
    const size_t lanes = hn::Lanes(d);
    const auto width = static_cast<size_t>(layout_.block_columns());
    if (width % lanes != 0 && lanes % width != 0) return false;
    const size_t step = std::max(width, lanes);
    const auto load = [&](size_t i) HWY_ATTR { return hn::BitCast(di, hn::Load(d, tile.largest + i)); };
    for (size_t begin = 0; begin < count; begin += step) {
      auto bits = load(begin);
      const size_t end = std::min(count, begin + step);
      for (size_t i = begin + lanes; i < end; i += lanes) bits = hn::Max(bits, load(i));
      bits = LargestOfNeighbours(bits, std::min(width, lanes));
      if (!hn::AllTrue(di, hn::Or(ArePlain(bits), hn::Not(hn::FirstN(di, count - begin))))) return false;
      const auto [first, second] = kernel_.PlainShared(d, bits);
      for (size_t i = begin; i < end; i += lanes) {
        hn::Store(first, d, tile.shared[0] + i);
        hn::Store(second, d, tile.shared[1] + i);
      }
    }
    return true;
  }

  HWY_INLINE hn::Mask<IntTag> ArePlain(IntVec bits) const {
    const IntTag di;
    const BlockTable& table = parameters_.table;
    return hn::AndNot(hn::Lt(bits, hn::Set(di, table.plain_from())),
                      hn::Lt(bits, hn::Set(di, table.plain_until())));
  }

  /// In every lane, the largest of its `width` aligned neighbours; a power of two.
  static HWY_INLINE IntVec LargestOfNeighbours(IntVec bits, [[maybe_unused]] size_t width) {
#if HWY_TARGET != HWY_SCALAR
    const IntTag di;
    if (width >= 2) bits = hn::Max(bits, hn::Shuffle2301(bits));
    if (width >= 4) bits = hn::Max(bits, hn::Shuffle1032(bits));
    for (size_t distance = 4; distance < width; distance *= 2) {
      const auto other = hn::Xor(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(distance)));
      bits = hn::Max(bits, hn::TableLookupLanes(bits, hn::IndicesFromVec(di, other)));
    }
#endif
    return bits;
  }

  /// The columns of a unit of one row, in blocks of which vectors hold several: a vector at a time where its
  /// blocks are plain and finite.
  void RoundNarrowRow(const BlockLayout::Unit& unit) const {
    const auto width = static_cast<size_t>(layout_.block_columns());
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t at = unit.begin;
    if (lanes % layout_.block_columns() == 0) {
      for (; at + lanes <= unit.end; at += lanes) {
        const BlockVec x = hn::LoadU(d, input_ + unit.offset + at);
        const IntVec bits = LargestOfNeighbours(hn::BitCast(IntTag(), hn::Abs(x)), width);
        if (!hn::AllTrue(IntTag(), ArePlain(bits))) {
          RoundTile(unit, at, lanes);
          continue;
        }
        const auto parts = kernel_.PlainShared(d, bits);
        const Shared shared = Kernel::Collect([&](size_t k) HWY_ATTR { return parts[k == 0 ? 0 : 1]; });
        Write(kernel_.RoundFinite(d, x, shared), Output(unit.offset + at));
      }
    }
    const int64_t tile = layout_.tile_columns();
    for (; at < unit.end; at += tile) RoundTile(unit, at, std::min(tile, unit.end - at));
  }

  void ShareAny(Tile& tile, size_t count, int64_t block) const {
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
