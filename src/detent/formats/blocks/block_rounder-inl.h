// Per-target include guard
#if defined(DETENT_FORMATS_BLOCKS_BLOCK_ROUNDER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_BLOCKS_BLOCK_ROUNDER_INL_H_
#undef DETENT_FORMATS_BLOCKS_BLOCK_ROUNDER_INL_H_
#else
#define DETENT_FORMATS_BLOCKS_BLOCK_ROUNDER_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>

#include "detent/formats/blocks/block_grid-inl.h"
#include "detent/formats/blocks/block_kernel-inl.h"
#include "detent/formats/blocks/block_kernels.h"
#include "detent/formats/blocks/block_log-inl.h"
#include "detent/formats/blocks/nvfp4-inl.h"
#include "detent/formats/groups/group_parameters.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Columns of narrow blocks processed at a time: tile_columns() at most.
constexpr size_t kMaxTile = 512;

/// Output: as BlockOutput says, or codes.
enum class Written { kValue, kUnsaturated, kCode };

/// Processes one tensor with a block kernel.
///
/// `output` points to where element `first` belongs.
template <class Parameters, Written kKind>
class BlockRounder {
  static constexpr BlockTag d{};
  using Kernel = decltype(MakeBlockKernel(BlockTag(), std::declval<const Parameters&>()));
  using Shared = typename Kernel::Shared;
  static constexpr bool kCodes = kKind == Written::kCode;
  static constexpr bool kHasFinite = kKind != Written::kUnsaturated;
  static_assert(BlockKernel<Kernel>);
  static constexpr bool kRoundsNarrow = kHasFinite && PlainBlockKernel<Kernel>;
  using Out = std::conditional_t<kCodes, uint32_t, float>;

 public:
  /// With `stream`, for values alone, stores bypass the caches.
  BlockRounder(const Parameters& parameters, const BlockLayout& layout, const float* input, Out* output,
               bool stream)
      : parameters_(parameters),
        kernel_(MakeBlockKernel(d, parameters)),
        layout_(layout),
        input_(input),
        output_(output),
        stream_(stream) {}
  /// For kCode.
  BlockRounder(const Parameters& parameters, const BlockLayout& layout, const float* input, Out* output,
               int64_t first, const BlockCodeOutput& codes)
      : parameters_(parameters),
        kernel_(MakeBlockKernel(d, parameters)),
        layout_(layout),
        input_(input),
        output_(output),
        first_(first),
        codes_(&codes),
        sign_(codes) {}

  void RoundUnit(const BlockLayout::Unit& unit) const {
    const int64_t width = layout_.block_columns();
    const int64_t tile = layout_.tile_columns();
    if (width >= BlockLayout::kWide && layout_.band_rows() == 1) {
      RoundRow(unit);
    } else if (RoundsNarrow(unit)) {
      return;
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
  /// Scale of a block's elements.
  struct OfBlock {
    BlockShared shared;
    bool plain;
    const BlockScale* scale;
  };

  /// Rounds the unit if its layout has a kernel for narrow blocks, else returns false.
  bool RoundsNarrow(const BlockLayout::Unit& unit) const {
    if constexpr (kRoundsNarrow) {
      if (layout_.band_rows() == 1) {
        RoundNarrowRow(unit);
        return true;
      }
      if (layout_.band_rows() <= kStripRows && kLine % layout_.block_columns() == 0) {
        RoundStrips(unit);
        return true;
      }
    }
    return false;
  }

  Out* Output(int64_t index) const { return output_ + (index - first_); }

  /// Index of the unit's block that begins at `column`.
  int64_t BlockAt(const BlockLayout::Unit& unit, int64_t column) const {
    return unit.block + (column - unit.begin) / layout_.block_columns();
  }

  HWY_INLINE OfBlock Share(float max, int64_t block) const {
    const auto [shared, code, plain] = parameters_.shared_scale(max);
    const BlockScale* scale = nullptr;
    if constexpr (kCodes) {
      codes_->scale_codes[block] = code;
      scale = &codes_->scales[code];
    }
    return {shared, plain, scale};
  }

  template <bool kPlain>
  HWY_INLINE BlockVec Round(BlockVec x, const Shared& shared) const {
    if constexpr (kCodes && ScalingBlockKernel<Kernel>) {
      return kernel_.RoundElement(d, x, shared);
    } else if constexpr (kPlain) {
      return hn::IfThenElse(hn::IsNaN(x), x, kernel_.RoundFinite(d, x, shared));
    } else {
      return kernel_.Round(d, x, shared);
    }
  }

  template <bool kPlain>
  HWY_INLINE BlockVec Result(BlockVec x, const Shared& shared) const {
    if constexpr (kKind == Written::kValue) {
      return Round<kPlain>(x, shared);
    } else {
      const auto held = hn::Or(kernel_.Unsaturated(d, x, shared), hn::IsNaN(x));
      return hn::IfThenElseZero(held, hn::Set(d, 1.0F));
    }
  }

  static HWY_INLINE void Write(BlockVec v, float* to, bool stream) {
    if (stream) {
      hn::Stream(v, d, to);
    } else {
      hn::StoreU(v, d, to);
    }
  }

  /// Writes a plain block of finite elements.
  static HWY_INLINE void WriteFinite(const Kernel& kernel, const ElementSign& sign, BlockVec x,
                                     const Shared& shared, Out* to, [[maybe_unused]] bool stream) {
    if constexpr (kCodes) {
      const hn::RebindToUnsigned<BlockTag> du;
      hn::StoreU(hn::BitCast(du, kernel.Code(d, x, shared, sign)), du, to);
    } else {
      Write(kernel.RoundFinite(d, x, shared), to, stream);
    }
  }

  /// Elements of a cache line.
  static constexpr int64_t kLine = 16;
  static constexpr size_t kStripVectors = std::max<size_t>(1, size_t{kLine} / hn::MaxLanes(d));

#if HWY_TARGET != HWY_SCALAR
  /// Blocks whose maxima are found before any is rounded, so that their latencies overlap.
  static constexpr int64_t kMaxBatch = 32;
  static constexpr int64_t kBatchElements = 512;
  /// Prefetch distance of the search for maxima: the hardware prefetcher stops while rounding takes long.
  static constexpr size_t kPrefetched = 1024;
  using Scales = typename ScalesOf<Kernel, size_t{kMaxBatch}>::type;

  /// Adjacent blocks of whole vectors, a multiple of 4.
  void RoundBatches(const float* input, Out* output, int64_t block, int64_t blocks) const {
    switch (layout_.block_columns() / static_cast<int64_t>(hn::Lanes(d))) {
      case 1:
        return RoundBatchesOf<1>(input, output, block, blocks);
      case 2:
        return RoundBatchesOf<2>(input, output, block, blocks);
      default:
        return RoundBatchesOf<0>(input, output, block, blocks);
    }
  }

  /// Rounds blocks of kVectors vectors, or of any number for 0. While a batch is rounded, the maxima of the
  /// next are found, so that memory never idles.
  template <size_t kVectors>
  void RoundBatchesOf(const float* input, Out* output, int64_t block, int64_t blocks) const {
    const size_t width =
        kVectors > 0 ? kVectors * hn::Lanes(d) : static_cast<size_t>(layout_.block_columns());
    const auto step = static_cast<int64_t>(width);
    const int64_t most = std::clamp<int64_t>(kBatchElements / step, 4, kMaxBatch) / 4 * 4;
    HWY_ALIGN int32_t largest[2][kMaxBatch] = {};
    int32_t* of_batch = largest[0];
    int32_t* of_next = largest[1];
    int64_t batch = std::min(most, blocks);
    for (int64_t i = 0; i < batch; i += 4) FindLargest(input + i * step, width, of_batch + i);
    const Kernel kernel = kernel_;  // in registers, as what is written cannot change it
    const ElementSign sign = sign_;
    const bool stream = stream_;
    while (batch > 0) {
      blocks -= batch;
      const int64_t next = std::min(most, blocks);
      const Scales scales(kernel, of_batch, static_cast<size_t>(batch));
      const bool all_plain = scales.are_plain(static_cast<size_t>(batch));
      if constexpr (kCodes) scales.write_codes(codes_->scale_codes + block, static_cast<size_t>(batch));
      for (int64_t i = 0; i < batch; i += 4) {
        if (i < next) FindLargest(input + (batch + i) * step, width, of_next + i);
        for (int64_t k = i; k < i + 4; ++k) {
          const float* from = input + k * step;
          Out* to = output + k * step;
          if (!all_plain && !scales.is_plain(static_cast<size_t>(k))) {
            RoundBlock(from, to, block + k, width);
            continue;
          }
          const Shared shared = scales.at(d, static_cast<size_t>(k));
          for (size_t at = 0; at < width; at += hn::Lanes(d))
            WriteFinite(kernel, sign, hn::LoadU(d, from + at), shared, to + at, stream);
        }
      }
      input += batch * step;
      output += batch * step;
      block += batch;
      std::swap(of_batch, of_next);
      batch = next;
    }
  }

  /// Maxima of four adjacent blocks. Magnitudes are compared by their bits, among which infinities and NaN
  /// are the largest.
  static HWY_INLINE void FindLargest(const float* from, size_t width, int32_t* largest) {
    for (size_t i = 0; i < 4 * width; i += kLine) hwy::Prefetch(address_after(from, kPrefetched + i));
    StoreLargestOfFour(IntTag(), LargestBits(from, width), LargestBits(from + width, width),
                       LargestBits(from + 2 * width, width), LargestBits(from + 3 * width, width), largest);
  }

  static HWY_INLINE IntVec LargestBits(const float* from, size_t width) {
    const IntTag di;
    auto bits = hn::BitCast(di, hn::Abs(hn::LoadU(d, from)));
    for (size_t i = hn::Lanes(d); i < width; i += hn::Lanes(d))
      bits = hn::Max(bits, hn::BitCast(di, hn::Abs(hn::LoadU(d, from + i))));
    return bits;
  }

  /// Four adjacent blocks, from `block` on.
  HWY_INLINE void RoundFour(const float* input, Out* output, int64_t block) const {
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
    Out* output = Output(unit.offset);
    const int64_t width = layout_.block_columns();
    int64_t at = unit.begin;
    int64_t block = unit.block;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (kHasFinite) {
      if (width % static_cast<int64_t>(hn::Lanes(d)) == 0) {
        const int64_t blocks = (unit.end - at) / width / 4 * 4;
        RoundBatches(input + at, output + at, block, blocks);
        at += blocks * width;
        block += blocks;
      }
    }
    for (; at + 4 * width <= unit.end; at += 4 * width, block += 4) RoundFour(input + at, output + at, block);
#endif
    for (; at < unit.end; at += width, ++block)
      RoundBlock(input + at, output + at, block, static_cast<size_t>(std::min(width, unit.end - at)));
  }

  HWY_NOINLINE void RoundBlock(const float* input, Out* output, int64_t block, size_t count) const {
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

  HWY_INLINE void RoundRun(const OfBlock& of_block, const float* input, Out* output, size_t count) const {
    const Shared shared = Broadcast(of_block.shared);
    const auto same = [&](size_t /*i*/) HWY_ATTR { return shared; };
    if constexpr (kCodes) {
      if (of_block.plain && CodePlain(same, input, output, count)) return;
      CodeAny(
          same, [&](size_t /*i*/) { return of_block.scale; }, input, output, count);
    } else if (of_block.plain) {
      RoundRunAs<true>(same, input, output, count);
    } else {
      RoundRunAs<false>(same, input, output, count);
    }
  }

  /// shared_at(i) is what the elements from i on share, lane by lane.
  template <bool kPlain, class SharedAt>
  HWY_INLINE void RoundRunAs(const SharedAt& shared_at, const float* input, float* output,
                             size_t count) const {
    const size_t lanes = hn::Lanes(d);
    const bool stream = stream_;
    size_t i = 0;
    for (; i + lanes <= count; i += lanes)
      Write(Result<kPlain>(hn::LoadU(d, input + i), shared_at(i)), output + i, stream);
    if (i == count) return;
    const BlockVec x = LoadPartial(d, input + i, count - i);
    StorePartial(d, Result<kPlain>(x, shared_at(i)), output + i, count - i);
  }

  /// Codes of elements of plain blocks. Returns false on NaN; the output is then undefined.
  template <class SharedAt>
  HWY_INLINE bool CodePlain(const SharedAt& shared_at, const float* input, uint32_t* output,
                            size_t count) const {
    const size_t lanes = hn::Lanes(d);
    const IntTag di;
    IntVec largest = hn::Zero(di);  // magnitudes as bits
    const auto code = [&](BlockVec x, size_t i) HWY_ATTR {
      largest = hn::Max(largest, hn::BitCast(di, hn::Abs(x)));
      return kernel_.Code(d, x, shared_at(i), sign_);
    };
    size_t i = 0;
    const hn::RebindToUnsigned<BlockTag> du;
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(hn::BitCast(du, code(hn::LoadU(d, input + i), i)), du, output + i);
    if (i < count) {
      HWY_ALIGN uint32_t codes[hn::MaxLanes(d)];
      hn::Store(hn::BitCast(du, code(LoadPartial(d, input + i, count - i), i)), du, codes);
      std::copy_n(codes, count - i, output + i);
    }
    return hn::AllTrue(di, hn::Lt(largest, hn::Set(di, kInfinityBits + 1)));
  }

  /// Codes of any elements: by way of their values, which scale_at(i) turns into elements one by one.
  template <class SharedAt, class ScaleAt>
  void CodeAny(const SharedAt& shared_at, const ScaleAt& scale_at, const float* input, uint32_t* output,
               size_t count) const {
    constexpr size_t kLanes = hn::MaxLanes(d);
    HWY_ALIGN float elements[kLanes];
    for (size_t i = 0; i < count; i += hn::Lanes(d)) {
      const size_t size = std::min(hn::Lanes(d), count - i);
      hn::Store(Round<false>(LoadPartial(d, input + i, size), shared_at(i)), d, elements);
      for (size_t lane = 0; lane < size; ++lane) {
        const BlockScale& scale = *scale_at(i + lane);
        elements[lane] =
            scale.plain_element ? elements[lane] * scale.to_element : scale.element_of(elements[lane]);
      }
      const auto held = static_cast<int64_t>(size);
      const int64_t nan = codes_->nan_allowed ? held : first_nan(elements, held);
      if (nan < held) return codes_->nan.report(first_ + (output - output_) + static_cast<int64_t>(i) + nan);
      encode_elements(codes_->elements, elements, output + i, held);
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

  /// Rows that a strip has at most.
  static constexpr int64_t kStripRows = 16;

  /// The blocks in a cache line of each row of the unit, read once: rows are often a power of two apart and
  /// compete for the same sets of the first-level cache.
  void RoundStrips(const BlockLayout::Unit& unit) const {
    int64_t rows[kStripRows];
    int64_t count = 0;
    for_each_row(layout_, unit, [&](int64_t row) { rows[count++] = row; });
    int64_t at = unit.begin;
    for (; at + kLine <= unit.end; at += kLine) {
      if (!RoundPlainStrip(rows, count, at, BlockAt(unit, at))) RoundTile(unit, at, kLine);
    }
    if (at < unit.end) RoundTile(unit, at, unit.end - at);
  }

  /// Gives all vectors of a block, `vectors` adjacent ones, the maxima of their lanes.
  static HWY_INLINE void MergeWithinBlocks(IntVec* bits, size_t vectors) {
    for (size_t first = 0; vectors > 1 && first < kStripVectors; first += vectors) {
      for (size_t v = 1; v < vectors; ++v) bits[first] = hn::Max(bits[first], bits[first + v]);
      for (size_t v = 1; v < vectors; ++v) bits[first + v] = bits[first];
    }
  }

  /// Returns false, with nothing written, unless all blocks are plain and finite.
  HWY_INLINE bool RoundPlainStrip(const int64_t* rows, int64_t count, int64_t column, int64_t block) const {
    constexpr IntTag di;
    constexpr size_t kPrefetchedColumns = 128;
    const auto width = static_cast<size_t>(layout_.block_columns());
    const PlainBlocks& plain = parameters_.plain_blocks();
    HWY_ALIGN float strip[kStripRows][kLine];
    IntVec bits[kStripVectors];
    for (IntVec& of_vector : bits) of_vector = hn::Zero(di);
    for (int64_t r = 0; r < count; ++r) {
      const float* from = input_ + rows[r] + column;
      hwy::Prefetch(address_after(from, kPrefetchedColumns));
      for (size_t v = 0; v < kStripVectors; ++v) {
        const BlockVec x = hn::LoadU(d, from + v * hn::Lanes(d));
        hn::Store(x, d, strip[r] + v * hn::Lanes(d));
        bits[v] = hn::Max(bits[v], hn::BitCast(di, hn::Abs(x)));
      }
    }
    if constexpr (kStripVectors > 1) MergeWithinBlocks(bits, width / hn::Lanes(d));
    Shared shared[kStripVectors];
    for (size_t v = 0; v < kStripVectors; ++v) {
      bits[v] = LargestOfNeighbours(bits[v], std::min(width, hn::Lanes(d)));
      if (!hn::AllTrue(di, ArePlain(plain, bits[v]))) return false;
      const auto held = HeldExponents(plain, bits[v]);
      const auto parts = PlainShared(plain, held);
      shared[v] = Kernel::Collect([&](size_t k) HWY_ATTR { return parts[k == 0 ? 0 : 1]; });
      if constexpr (kCodes) {
        const auto of_vector = static_cast<int64_t>(v * hn::Lanes(d) / width);
        WriteScaleCodes(PlainCodes(plain, held), block + of_vector, width);
      }
    }
    for (int64_t r = 0; r < count; ++r) {
      Out* to = Output(rows[r] + column);
      for (size_t v = 0; v < kStripVectors; ++v) {
        const BlockVec x = hn::Load(d, strip[r] + v * hn::Lanes(d));
        WriteFinite(kernel_, sign_, x, shared[v], to + v * hn::Lanes(d), stream_);
      }
    }
    return true;
  }

  /// Scales of the columns of a tile.
  struct Tile {
    bool plain = true;
    bool scaled = false;  // whether the scales are known
    HWY_ALIGN float largest[kMaxTile];
    HWY_ALIGN float shared[std::tuple_size_v<BlockShared>][kMaxTile];
    HWY_ALIGN int32_t codes[kMaxTile];
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
    const int64_t block = BlockAt(unit, column);
    Share(tile, size, block);
    for_each_row(layout_, unit, [&](int64_t row) {
      const float* from = input_ + row + column;
      // Prefetch the next tile: rows are too short for the hardware prefetcher.
      for (size_t i = 0; i < size; i += kLine) hwy::Prefetch(address_after(from, size + i));
      RoundTileRow(tile, block, from, Output(row + column), size);
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

  void Share(Tile& tile, size_t count, int64_t block) const {
    if constexpr (kRoundsNarrow) {
      if (SharePlain(tile, count, block)) return;
    }
    ShareAny(tile, count, block);
  }

  /// Returns false, with undefined output, unless blocks are plain and whole vectors or a power of two that
  /// divides one.
  bool SharePlain(Tile& tile, size_t count, int64_t block) const {
    const IntTag di;
    const PlainBlocks& plain = parameters_.plain_blocks();
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
      if (!hn::AllTrue(di, hn::Or(ArePlain(plain, bits), hn::Not(hn::FirstN(di, count - begin)))))
        return false;
      const auto held = HeldExponents(plain, bits);
      const auto [first, second] = PlainShared(plain, held);
      for (size_t i = begin; i < end; i += lanes) {
        hn::Store(first, d, tile.shared[0] + i);
        hn::Store(second, d, tile.shared[1] + i);
        if constexpr (kCodes) hn::Store(PlainCodes(plain, held), di, tile.codes + i);
      }
    }
    if constexpr (kCodes) {
      for (size_t begin = 0; begin < count; begin += width, ++block)
        codes_->scale_codes[block] = static_cast<uint8_t>(tile.codes[begin]);
    }
    return true;
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
    const PlainBlocks plain = parameters_.plain_blocks();
    int64_t at = unit.begin;
    if (lanes % layout_.block_columns() == 0) {
      for (; at + lanes <= unit.end; at += lanes) {
        const BlockVec x = hn::LoadU(d, input_ + unit.offset + at);
        const IntVec bits = LargestOfNeighbours(hn::BitCast(IntTag(), hn::Abs(x)), width);
        if (!hn::AllTrue(IntTag(), ArePlain(plain, bits))) {
          RoundTile(unit, at, lanes);
          continue;
        }
        const auto held = HeldExponents(plain, bits);
        const auto parts = PlainShared(plain, held);
        const Shared shared = Kernel::Collect([&](size_t k) HWY_ATTR { return parts[k == 0 ? 0 : 1]; });
        if constexpr (kCodes) WriteScaleCodes(PlainCodes(plain, held), BlockAt(unit, at), width);
        WriteFinite(kernel_, sign_, x, shared, Output(unit.offset + at), stream_);
      }
    }
    const int64_t tile = layout_.tile_columns();
    for (; at < unit.end; at += tile) RoundTile(unit, at, std::min(tile, unit.end - at));
  }

  /// `codes` are those of blocks of `width` adjacent lanes each.
  void WriteScaleCodes(IntVec codes, int64_t block, size_t width) const {
    HWY_ALIGN int32_t of_lane[hn::MaxLanes(d)];
    hn::Store(codes, IntTag(), of_lane);
    for (size_t i = 0; i < hn::Lanes(d); i += width, ++block)
      codes_->scale_codes[block] = static_cast<uint8_t>(of_lane[i]);
  }

  void ShareAny(Tile& tile, size_t count, int64_t block) const {
    const auto width = static_cast<size_t>(layout_.block_columns());
    tile.plain = true;
    for (size_t begin = 0; begin < count; begin += width, ++block) {
      const size_t end = std::min(count, begin + width);
      const auto [shared, plain, scale] =
          Share(*std::max_element(tile.largest + begin, tile.largest + end), block);
      tile.plain = tile.plain && plain;
      for (size_t i = begin; i < end; ++i) {
        for (size_t k = 0; k < shared.size(); ++k) tile.shared[k][i] = shared[k];
      }
      if constexpr (kCodes) std::fill(tile.scale + begin, tile.scale + end, scale);
    }
    tile.scaled = true;
  }

  HWY_INLINE static Shared SharedAt(const Tile& tile, size_t i) {
    return Kernel::Collect([&](size_t k) HWY_ATTR { return hn::Load(d, tile.shared[k] + i); });
  }

  /// `block` is the tile's first.
  void RoundTileRow(Tile& tile, [[maybe_unused]] int64_t block, const float* input, Out* output,
                    size_t count) const {
    const auto shared_at = [&](size_t i) HWY_ATTR { return SharedAt(tile, i); };
    if constexpr (kCodes) {
      if (tile.plain && CodePlain(shared_at, input, output, count)) return;
      if (!tile.scaled) ShareAny(tile, count, block);
      CodeAny(
          shared_at, [&](size_t i) { return tile.scale[i]; }, input, output, count);
    } else if (tile.plain) {
      RoundRunAs<true>(shared_at, input, output, count);
    } else {
      RoundRunAs<false>(shared_at, input, output, count);
    }
  }

  const Parameters& parameters_;
  Kernel kernel_;
  const BlockLayout& layout_;
  const float* input_;
  Out* output_;
  int64_t first_ = 0;
  bool stream_ = false;
  const BlockCodeOutput* codes_ = nullptr;
  ElementSign sign_;
};

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_BLOCKS_BLOCK_ROUNDER_INL_H_
