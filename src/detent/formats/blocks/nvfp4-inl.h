// Per-target include guard
#if defined(DETENT_FORMATS_BLOCKS_NVFP4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_BLOCKS_NVFP4_INL_H_
#undef DETENT_FORMATS_BLOCKS_NVFP4_INL_H_
#else
#define DETENT_FORMATS_BLOCKS_NVFP4_INL_H_
#endif

#include <hwy/highway.h>

#include "detent/formats/blocks/nvfp4.h"
#include "detent/formats/elements/minifloat-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// e2m1 elements of |x| over a scale, which is rounded to e4m3fn itself.
template <class D>
class Nvfp4Kernel {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;

 public:
  using Parameters = Nvfp4Parameters;
  struct Shared {
    V scale, divisor, reciprocal;
  };
  template <class At>
  static HWY_INLINE Shared Collect(At&& at) {
    return {at(0), at(1), at(2)};
  }

  Nvfp4Kernel(D /*d*/, const Nvfp4Parameters& p)
      : parameters_(p),
        scales_(Nvfp4Parameters::kScaleGrid.mantissa_bits),
        elements_(Nvfp4Parameters::kElementGrid.mantissa_bits) {}

  const Parameters& parameters() const { return parameters_; }

  HWY_INLINE V Round(D d, V x, const Shared& shared) const {
    const V value = hn::Mul(Magnitude(d, Quotient(d, x, shared)), shared.scale);
    const V held = hn::Min(value, hn::Set(d, std::numeric_limits<float>::max()));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySignToAbs(held, x));
  }

  /// Rounds a plain block whose elements are all finite.
  HWY_INLINE V RoundFinite(D d, V x, const Shared& shared) const {
    const V value = hn::Mul(Magnitude(d, PlainQuotient(d, x, shared)), shared.scale);
    return hn::CopySignToAbs(value, x);
  }

  /// Shared values of many blocks, whose largest magnitudes have these bits: Nvfp4Parameters::shared_scale
  /// lane by lane.
  template <size_t kBlocks>
  class Scales {
   public:
    Scales(const Nvfp4Kernel& kernel, const int32_t* bits, size_t blocks)
        : scales_(kernel.scales_), bits_(bits) {
      const D d;
      for (size_t i = 0; i < blocks; i += hn::Lanes(d)) {
        const V max = hn::BitCast(d, hn::Load(DI(), bits + i));
        const V block_scale = kernel.BlockScale(d, max);
        const V scale = kernel.Scale(d, block_scale);
        hn::Store(block_scale, d, block_scale_ + i);
        hn::Store(scale, d, scale_ + i);
        hn::Store(hn::Div(hn::Set(d, 1.0F), scale), d, reciprocal_ + i);
      }
    }
    bool is_plain(size_t i) const {
      return bits_[i] < 0x7F800000 && scale_[i] >= Nvfp4Parameters::kSmallestPlain &&
             scale_[i] <= Nvfp4Parameters::kLargestPlain;
    }
    /// All of the first `blocks`.
    HWY_INLINE bool are_plain(size_t blocks) const {
      const D d;
      const DI di;
      for (size_t i = 0; i < blocks; i += hn::Lanes(d)) {
        const V scale = hn::Load(d, scale_ + i);
        const auto moderate = hn::And(hn::Ge(scale, hn::Set(d, Nvfp4Parameters::kSmallestPlain)),
                                      hn::Le(scale, hn::Set(d, Nvfp4Parameters::kLargestPlain)));
        const auto finite = hn::Lt(hn::Load(di, bits_ + i), hn::Set(di, 0x7F800000));
        const auto plain = hn::And(hn::RebindMask(di, moderate), finite);
        if (!hn::AllTrue(di, hn::Or(plain, hn::Not(hn::FirstN(di, blocks - i))))) return false;
      }
      return true;
    }
    HWY_INLINE void write_codes(uint8_t* codes, size_t blocks) const {
      const D d;
      const hn::Rebind<uint8_t, DI> du8;
      HWY_ALIGN uint8_t padded[kBlocks];
      for (size_t i = 0; i < blocks; i += hn::Lanes(d)) {
        const auto number = scales_.Number(d, hn::Load(d, block_scale_ + i), LeastScaleAddend(d));
        hn::Store(hn::DemoteTo(du8, number), du8, padded + i);
      }
      std::copy_n(padded, blocks, codes);
    }
    HWY_INLINE Shared at(D d, size_t i) const {
      const V scale = hn::Set(d, scale_[i]);
      return {scale, scale, hn::Set(d, reciprocal_[i])};
    }

   private:
    const MinifloatArithmetic<D> scales_;
    const int32_t* bits_;
    HWY_ALIGN float block_scale_[kBlocks];
    HWY_ALIGN float scale_[kBlocks];
    HWY_ALIGN float reciprocal_[kBlocks];
  };

  template <class Sign>
  HWY_INLINE hn::Vec<DI> Code(D d, V x, const Shared& shared, const Sign& sign) const {
    return sign.Code(elements_.Number(d, PlainQuotient(d, x, shared), LeastElementAddend(d)), x);
  }

  /// The element, before it is scaled.
  HWY_INLINE V RoundElement(D d, V x, const Shared& shared) const {
    const V element = hn::CopySignToAbs(Magnitude(d, Quotient(d, x, shared)), x);
    return hn::IfThenElse(hn::IsNaN(x), x, element);
  }

  /// 7, the tie between 6 and 8, would go to 8.
  HWY_INLINE hn::Mask<D> Unsaturated(D d, V x, const Shared& shared) const {
    const V magnitude = hn::Abs(x);
    const auto within = hn::Lt(hn::Div(magnitude, shared.divisor), hn::Set(d, 7.0F));
    const V zero = hn::Zero(d);
    return hn::Or(hn::And(within, hn::Gt(shared.scale, zero)), hn::Eq(magnitude, zero));
  }

 private:
  static HWY_INLINE V LeastScaleAddend(D d) { return hn::Set(d, Nvfp4Parameters::kLeastScaleAddend); }
  static HWY_INLINE V LeastElementAddend(D d) { return hn::Set(d, Nvfp4Parameters::kLeastElementAddend); }

  /// Nvfp4Parameters::shared_scale lane by lane.
  HWY_INLINE V BlockScale(D d, V max) const {
    const V tensor_scale = hn::Set(d, parameters_.tensor_scale);
    const V largest = hn::Set(d, Nvfp4Parameters::kScaleGrid.largest);
    const V held = hn::Min(hn::Div(hn::Div(max, hn::Set(d, 6.0F)), tensor_scale), largest);
    const V rounded = scales_.Round(d, held, LeastScaleAddend(d));
    return hn::IfThenElse(hn::Gt(max, hn::Zero(d)), rounded, largest);
  }

  HWY_INLINE V Scale(D d, V block_scale) const {
    return hn::Mul(block_scale, hn::Set(d, parameters_.tensor_scale));
  }

  /// Magnitude of the element.
  HWY_INLINE V Magnitude(D d, V quotient) const {
    return elements_.Round(d, quotient, LeastElementAddend(d));
  }

  static HWY_INLINE V Quotient(D d, V x, const Shared& shared) {
    return hn::Min(hn::Div(hn::Abs(x), shared.divisor), hn::Set(d, 6.0F));
  }
  /// Rounds to the same elements. One step of Newton's on |x| times the reciprocal, with the remainder exact,
  /// lies on the same side of each tie of e2m1 as the rounded quotient, and on the tie where that does:
  /// the test Nvfp4Quotient holds that for all 2^23 significands of the divisor.
  static HWY_INLINE V PlainQuotient(D d, V x, const Shared& shared) {
#if HWY_NATIVE_FMA
    const V magnitude = hn::Abs(x);
    const V estimate = hn::Mul(magnitude, shared.reciprocal);
    const V remainder = hn::NegMulAdd(estimate, shared.divisor, magnitude);
    return hn::Min(hn::MulAdd(remainder, shared.reciprocal, estimate), hn::Set(d, 6.0F));
#else
    return Quotient(d, x, shared);
#endif
  }

  const Nvfp4Parameters& parameters_;
  MinifloatArithmetic<D> scales_, elements_;
};

template <class D>
auto MakeBlockKernel(D d, const Nvfp4Parameters& parameters) {
  return Nvfp4Kernel<D>(d, parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_BLOCKS_NVFP4_INL_H_
