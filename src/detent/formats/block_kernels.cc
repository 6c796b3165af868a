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

/// One tensor's work. `kKind` is what is written, `kStream` how.
template <class Parameters, BlockOutput kKind, bool kStream>
class BlockRounder {
  static constexpr BlockTag d{};
  using Kernel = decltype(MakeBlockKernel(BlockTag(), std::declval<const Parameters&>()));
  using Shared = typename Kernel::Shared;
  static constexpr bool kHasFinite = kKind == BlockOutput::kValue && requires { &Kernel::RoundFinite; };
  static constexpr bool kRoundsNarrow = kHasFinite && requires { &Kernel::PlainShared; };

 public:
  BlockRounder(const Parameters& parameters, const BlockLayout& layout, const float* input, float* output)
      : parameters_(parameters),
        kernel_(MakeBlockKernel(d, parameters)),
        layout_(layout),
        input_(input),
        output_(output) {}

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
  template <bool kPlain>
  HWY_INLINE BlockVec Element(BlockVec x, const Shared& shared) const {
    if constexpr (kKind == BlockOutput::kValue && kPlain && requires { &Kernel::RoundPlain; }) {
      return kernel_.RoundPlain(d, x, shared);
    } else if constexpr (kKind == BlockOutput::kValue) {
      return kernel_.Round(d, x, shared);
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
  void RoundSeveral(const float* input, float* output, size_t blocks) const {
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
        RoundBlock(input, output, width);
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

  /// Four adjacent blocks.
  HWY_INLINE void RoundFour(const float* input, float* output) const {
    const auto width = static_cast<size_t>(layout_.block_columns());
    HWY_ALIGN float max[4];
    StoreLargestOfFour(d, LargestOf(input, width, hn::Zero(d)), LargestOf(input + width, width, hn::Zero(d)),
                       LargestOf(input + 2 * width, width, hn::Zero(d)),
                       LargestOf(input + 3 * width, width, hn::Zero(d)), max);
    for (size_t i = 0; i < 4; ++i) RoundRun(max[i], input + i * width, output + i * width, width);
  }
#endif

  /// The columns of a unit of one row, in wide blocks.
  void RoundRow(const BlockLayout::Unit& unit) const {
    const float* input = input_ + unit.offset;
    float* output = output_ + unit.offset;
    const int64_t width = layout_.block_columns();
    int64_t at = unit.begin;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (kHasFinite) {
      const int64_t most = std::clamp<int64_t>(kRoundElements / width, 4, kMaxRound) / 4 * 4;
      while (width % static_cast<int64_t>(hn::Lanes(d)) == 0 && at + 4 * width <= unit.end) {
        const int64_t blocks = std::min(most, (unit.end - at) / width / 4 * 4);
        RoundSeveral(input + at, output + at, static_cast<size_t>(blocks));
        at += blocks * width;
      }
    }
    for (; at + 4 * width <= unit.end; at += 4 * width) RoundFour(input + at, output + at);
#endif
    for (; at < unit.end; at += width)
      RoundBlock(input + at, output + at, static_cast<size_t>(std::min(width, unit.end - at)));
  }

  void RoundBlock(const float* input, float* output, size_t count) const {
    const BlockVec largest = LargestOf(input, count, hn::Zero(d));
    RoundRun(hn::GetLane(hn::MaxOfLanes(d, largest)), input, output, count);
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

  HWY_INLINE void RoundRun(float max, const float* input, float* output, size_t count) const {
    const BlockShared& of_block = parameters_.shared(max);
    if (IsPlain(of_block)) {
      RoundRunAs<true>(Broadcast(of_block), input, output, count);
    } else {
      RoundRunAs<false>(Broadcast(of_block), input, output, count);
    }
  }

  template <bool kPlain>
  HWY_INLINE void RoundRunAs(const Shared shared, const float* input, float* output, size_t count) const {
    const size_t lanes = hn::Lanes(d);
    size_t i = 0;
    for (; i + lanes <= count; i += lanes)
      Write(Element<kPlain>(hn::LoadU(d, input + i), shared), output + i);
    if (i < count) {
      StorePartial(d, Element<kPlain>(LoadPartial(d, input + i, count - i), shared), output + i, count - i);
    }
  }

  /// One block of several rows, wide.
  void RoundBox(const BlockLayout::Unit& unit, int64_t column, size_t count) const {
    BlockVec largest = hn::Zero(d);
    for_each_row(layout_, unit,
                 [&](int64_t row) { largest = LargestOf(input_ + row + column, count, largest); });
    const float max = hn::GetLane(hn::MaxOfLanes(d, largest));
    for_each_row(layout_, unit,
                 [&](int64_t row) { RoundRun(max, input_ + row + column, output_ + row + column, count); });
  }

  /// What each column of a tile shares.
  struct Tile {
    bool plain = true;
    HWY_ALIGN float largest[kMaxTile];
    HWY_ALIGN float shared[std::tuple_size_v<BlockShared>][kMaxTile];
  };

  /// The blocks in the columns [column, column + count), side by side: a vector holds lanes of several
  /// blocks.
  void RoundTile(const BlockLayout::Unit& unit, int64_t column, int64_t count) const {
    Tile tile;
    const auto size = static_cast<size_t>(count);
    std::fill_n(tile.largest, kMaxTile, 0.0F);
    for_each_row(layout_, unit,
                 [&](int64_t row) { UpdateLargest(input_ + row + column, tile.largest, size); });
    Share(tile, size);
    for_each_row(layout_, unit, [&](int64_t row) {
      RoundTileRow(tile, input_ + row + column, output_ + row + column, size);
    });
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

  void Share(Tile& tile, size_t count) const {
    if constexpr (requires { &Kernel::PlainShared; }) {
      if (SharePlain(tile, count)) return;
    }
    ShareAny(tile, count);
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
        const auto [first, second] = kernel_.PlainShared(d, bits);
        const Shared shared = Kernel::Collect([&](size_t k) HWY_ATTR { return k == 0 ? first : second; });
        Write(kernel_.RoundFinite(d, x, shared), output_ + unit.offset + at);
      }
    }
    const int64_t tile = layout_.tile_columns();
    for (; at < unit.end; at += tile) RoundTile(unit, at, std::min(tile, unit.end - at));
  }

  void ShareAny(Tile& tile, size_t count) const {
    const auto width = static_cast<size_t>(layout_.block_columns());
    for (size_t begin = 0; begin < count; begin += width) {
      const size_t end = std::min(count, begin + width);
      const BlockShared& shared =
          parameters_.shared(*std::max_element(tile.largest + begin, tile.largest + end));
      tile.plain = tile.plain && IsPlain(shared);
      for (size_t i = begin; i < end; ++i) {
        for (size_t k = 0; k < shared.size(); ++k) tile.shared[k][i] = shared[k];
      }
    }
  }

  HWY_INLINE static Shared SharedAt(const Tile& tile, size_t i) {
    return Kernel::Collect([&](size_t k) HWY_ATTR { return hn::Load(d, tile.shared[k] + i); });
  }

  void RoundTileRow(const Tile& tile, const float* input, float* output, size_t count) const {
    if (tile.plain) {
      RoundTileRowAs<true>(tile, input, output, count);
    } else {
      RoundTileRowAs<false>(tile, input, output, count);
    }
  }

  template <bool kPlain>
  HWY_INLINE void RoundTileRowAs(const Tile& tile, const float* input, float* output, size_t count) const {
    const size_t lanes = hn::Lanes(d);
    size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      Write(Element<kPlain>(hn::LoadU(d, input + i), SharedAt(tile, i)), output + i);
    }
    if (i == count) return;
    const BlockVec x = LoadPartial(d, input + i, count - i);
    StorePartial(d, Element<kPlain>(x, SharedAt(tile, i)), output + i, count - i);
  }

  const Parameters& parameters_;
  Kernel kernel_;
  const BlockLayout& layout_;
  const float* input_;
  float* output_;
};

template <BlockOutput kKind, bool kStream, class Parameters>
void RoundUnits(const Parameters& parameters, const BlockLayout& layout, const float* input, float* output,
                int64_t begin, int64_t end) {
  const BlockRounder<Parameters, kKind, kStream> rounder(parameters, layout, input, output);
  BlockLayout::Unit unit;
  for (int64_t i = begin; i < end; ++i) {
    layout.locate(i, unit);
    rounder.RoundUnit(unit);
  }
  if constexpr (kStream) hwy::FlushStream();
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
          if (kind == BlockOutput::kUnsaturated) {
            RoundUnits<BlockOutput::kUnsaturated, false>(groups[0], layout, input, output, begin, end);
          } else if (stream && CanStream(layout, output)) {
            RoundUnits<BlockOutput::kValue, true>(groups[0], layout, input, output, begin, end);
          } else {
            RoundUnits<BlockOutput::kValue, false>(groups[0], layout, input, output, begin, end);
          }
        }
      },
      parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(RoundBlocks);

void round_blocks(const GroupParameters& parameters, const BlockLayout& layout, BlockOutput kind,
                  const float* input, float* output, int64_t begin, int64_t end, bool stream) {
  HWY_DYNAMIC_DISPATCH(RoundBlocks)(parameters, layout, kind, input, output, begin, end, stream);
}

}  // namespace detent
#endif  // HWY_ONCE
