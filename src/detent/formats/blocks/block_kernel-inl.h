// Per-target include guard
#if defined(DETENT_FORMATS_BLOCKS_BLOCK_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_BLOCKS_BLOCK_KERNEL_INL_H_
#undef DETENT_FORMATS_BLOCKS_BLOCK_KERNEL_INL_H_
#else
#define DETENT_FORMATS_BLOCKS_BLOCK_KERNEL_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "detent/formats/blocks/block_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using BlockTag = hn::ScalableTag<float>;
using BlockVec = hn::Vec<BlockTag>;
using IntTag = hn::RebindToSigned<BlockTag>;
using IntVec = hn::Vec<IntTag>;

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

/// Whether these bits are the largest magnitudes of plain blocks.
HWY_INLINE hn::Mask<IntTag> ArePlain(const PlainBlocks& plain, IntVec bits) {
  const IntTag di;
  return hn::AndNot(hn::Lt(bits, hn::Set(di, plain.from)), hn::Lt(bits, hn::Set(di, plain.until)));
}

/// The bits of the held exponents of largest magnitudes: see PlainBlocks.
HWY_INLINE IntVec HeldExponents(const PlainBlocks& plain, IntVec bits) {
  const IntTag di;
  const auto carried = hn::Add(bits, hn::Set(di, plain.exponent.carry()));
  const auto exponent = hn::And(carried, hn::Set(di, 0x7F800000));
  return hn::Min(hn::Max(exponent, hn::Set(di, plain.lowest)), hn::Set(di, plain.highest));
}

/// The two shared values that count.
HWY_INLINE std::array<BlockVec, 2> PlainShared(const PlainBlocks& plain, IntVec held) {
  const BlockTag d;
  const IntTag di;
  return {hn::BitCast(d, hn::Add(held, hn::Set(di, plain.first))),
          hn::BitCast(d, hn::Add(held, hn::Set(di, plain.second)))};
}

HWY_INLINE IntVec PlainCodes(const PlainBlocks& plain, IntVec held) {
  const IntTag di;
  const auto exponent = hn::ShiftRight<23>(held);
  const auto code = hn::Set(di, plain.code);
  return plain.descends ? hn::Sub(code, exponent) : hn::Add(code, exponent);
}

/// Shared values of many blocks, whose largest magnitudes have these bits.
template <class Kernel, size_t kBlocks>
class PlainScales {
 public:
  PlainScales(const Kernel& kernel, const int32_t* bits, size_t blocks)
      : plain_(kernel.parameters().plain_blocks()), bits_(bits) {
    const BlockTag d;
    for (size_t i = 0; i < blocks; i += hn::Lanes(d)) {
      const auto [first, second] = PlainShared(plain_, HeldExponents(plain_, hn::Load(IntTag(), bits + i)));
      hn::Store(first, d, first_ + i);
      hn::Store(second, d, second_ + i);
    }
  }

  HWY_INLINE bool is_plain(size_t i) const { return plain_.contains(bits_[i]); }
  /// All of the first `blocks`.
  HWY_INLINE bool are_plain(size_t blocks) const {
    const IntTag di;
    for (size_t i = 0; i < blocks; i += hn::Lanes(di)) {
      const auto others = hn::Not(hn::FirstN(di, blocks - i));
      if (!hn::AllTrue(di, hn::Or(ArePlain(plain_, hn::Load(di, bits_ + i)), others))) return false;
    }
    return true;
  }
  /// Codes of other blocks are undefined.
  HWY_INLINE void write_codes(uint8_t* codes, size_t blocks) const {
    const IntTag di;
    const hn::Rebind<uint8_t, IntTag> du8;
    HWY_ALIGN uint8_t padded[kBlocks];
    for (size_t i = 0; i < blocks; i += hn::Lanes(di)) {
      const auto held = HeldExponents(plain_, hn::Load(di, bits_ + i));
      hn::Store(hn::DemoteTo(du8, PlainCodes(plain_, held)), du8, padded + i);
    }
    std::copy_n(padded, blocks, codes);
  }
  HWY_INLINE typename Kernel::Shared at(BlockTag d, size_t i) const {
    return Kernel::Collect([&](size_t k) HWY_ATTR { return hn::Set(d, k == 0 ? first_[i] : second_[i]); });
  }

 private:
  const PlainBlocks plain_;
  const int32_t* bits_;
  HWY_ALIGN float first_[kBlocks];
  HWY_ALIGN float second_[kBlocks];
};

template <class Kernel, size_t kBlocks>
struct ScalesOf {
  using type = PlainScales<Kernel, kBlocks>;
};
template <class Kernel, size_t kBlocks>
requires requires { typename Kernel::template Scales<kBlocks>; }
struct ScalesOf<Kernel, kBlocks> {
  using type = typename Kernel::template Scales<kBlocks>;
};

constexpr int32_t kInfinityBits = 0x7F800000;

/// Sign encoding of a code.
class ElementSign {
 public:
  ElementSign() = default;
  explicit ElementSign(const BlockCodeOutput& codes)
      : twos_complement_(codes.twos_complement),
        sign_bit_(int32_t{1} << (codes.width - 1)),
        sign_shift_(32 - codes.width) {}

  /// The code of an element with the sign of x, the index-th magnitude that there is.
  HWY_INLINE IntVec Code(IntVec index, BlockVec x) const {
    const IntTag di;
    const auto bits = hn::BitCast(di, x);
    if (!twos_complement_)
      return hn::OrAnd(index, hn::ShiftRightSame(bits, sign_shift_), hn::Set(di, sign_bit_));
    const auto negative = hn::BroadcastSignBit(bits);
    const auto number = hn::Sub(hn::Xor(index, negative), negative);
    return hn::And(number, hn::Set(di, 2 * sign_bit_ - 1));
  }

 private:
  bool twos_complement_ = false;
  int32_t sign_bit_ = 0;
  int sign_shift_ = 0;
};

/// Kernel that rounds the elements of blocks by a rule for their scale, a vector at a time.
/// MakeBlockKernel(d, rule) makes one; block_rounder-inl.h walks the blocks with it.
template <class K>
concept BlockKernel = requires(const K kernel, BlockTag d, BlockVec x, const typename K::Shared& shared,
                               const ElementSign& sign) {
  /// The rule.
  kernel.parameters();
  /// Shared has in vectors what a block's elements share, made of at(k), the k-th number of
  /// SharedScale::shared.
  {
    K::Collect([](size_t) { return BlockVec(); })
    } -> std::same_as<typename K::Shared>;
  /// The value; NaN stays.
  { kernel.Round(d, x, shared) } -> std::same_as<BlockVec>;
  /// The same in a shorter way, of finite elements of plain blocks.
  { kernel.RoundFinite(d, x, shared) } -> std::same_as<BlockVec>;
  /// The code of that value.
  { kernel.Code(d, x, shared, sign) } -> std::same_as<IntVec>;
  /// Whether x does not saturate.
  { kernel.Unsaturated(d, x, shared) } -> std::same_as<hn::Mask<BlockTag>>;
};

/// Kernels whose rule computes shared values of plain blocks by bit arithmetic, for many blocks at once.
/// Others have a class Scales<kBlocks> with the members of PlainScales.
template <class K>
concept PlainBlockKernel = BlockKernel<K> && requires(const K kernel) {
  { kernel.parameters().plain_blocks() } -> std::same_as<const PlainBlocks&>;
};

/// Kernels whose Round scales coded elements: RoundElement returns these.
template <class K>
concept ScalingBlockKernel = BlockKernel<K> &&
    requires(const K kernel, BlockTag d, BlockVec x, const typename K::Shared& shared) {
  { kernel.RoundElement(d, x, shared) } -> std::same_as<BlockVec>;
};

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_BLOCKS_BLOCK_KERNEL_INL_H_
