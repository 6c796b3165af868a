// Per-target include guard
#if defined(DETENT_FORMATS_PACKING_BIT_UNPACKING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_PACKING_BIT_UNPACKING_INL_H_
#undef DETENT_FORMATS_PACKING_BIT_UNPACKING_INL_H_
#else
#define DETENT_FORMATS_PACKING_BIT_UNPACKING_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

// Elsewhere lanes cannot be shifted by different numbers of bits at once.
#undef DETENT_UNPACKS_VECTORS
#define DETENT_UNPACKS_VECTORS (HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_SSE4)

#if DETENT_UNPACKS_VECTORS
HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A vector of codes from a stream of bits. Every lane gets the four bytes from where its code begins, or
/// what there is of them, shifts them down and keeps its bits.
template <class DU>
class VectorUnpacker {
  using V = hn::Vec<DU>;
  using D8 = hn::Repartition<uint8_t, DU>;
  static constexpr DU du{};
  static constexpr D8 du8{};

 public:
  /// Read at a time.
  static constexpr int64_t kBytes = 16;

  /// Whether codes of this width can be unpacked: a vector's are whole bytes, which four codes of an odd
  /// width are not, and lie in what is read; each, which may begin with any bit of a byte, lies in four
  /// bytes.
  static bool Takes(int width) {
    const int64_t bits = static_cast<int64_t>(hn::Lanes(du)) * width;
    return bits % 8 == 0 && bits <= 8 * kBytes && width <= 25;
  }

  explicit VectorUnpacker(int width)
      : step_(static_cast<int64_t>(hn::Lanes(du)) * width / 8),
        mask_(hn::Set(du, (uint32_t{1} << width) - 1)) {
    HWY_ALIGN uint8_t bytes[hn::MaxLanes(du8)];
    HWY_ALIGN uint32_t shift[hn::MaxLanes(du)];
    for (size_t lane = 0; lane < hn::Lanes(du); ++lane) {
      const auto bit = static_cast<int64_t>(lane) * width;
      shift[lane] = static_cast<uint32_t>(bit % 8);
      for (int64_t k = 0; k < 4; ++k)
        bytes[4 * lane + static_cast<size_t>(k)] = static_cast<uint8_t>(std::min(bit / 8 + k, kBytes - 1));
    }
    bytes_ = hn::Load(du8, bytes);
    shift_ = hn::Load(du, shift);
  }

  /// Bytes from one vector's codes to the next one's.
  int64_t step() const { return step_; }

  HWY_INLINE V Of(const uint8_t* from) const {
    const auto spread = hn::TableLookupBytes(hn::LoadDup128(du8, from), bytes_);
    return hn::And(hn::Shr(hn::BitCast(du, spread), shift_), mask_);
  }

 private:
  int64_t step_;
  V mask_;
  hn::Vec<D8> bytes_;
  V shift_;
};

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // DETENT_UNPACKS_VECTORS

#endif  // DETENT_FORMATS_PACKING_BIT_UNPACKING_INL_H_
