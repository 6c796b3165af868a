// Per-target include guard
#if defined(DETENT_FORMATS_NVFP4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_NVFP4_INL_H_
#undef DETENT_FORMATS_NVFP4_INL_H_
#else
#define DETENT_FORMATS_NVFP4_INL_H_
#endif

#include <hwy/highway.h>

#include "detent/formats/nvfp4.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// e2m1 has the steps 1/2 below 2, 1 below 4 and 2 up to 6: |q| + 2^(e + 22) for the exponent e >= 0 of |q|
/// has that step as its last bit.
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

  Nvfp4Kernel(D /*d*/, const Nvfp4Parameters& p) : parameters_(p) {}

  HWY_INLINE V Round(D d, V x, const Shared& shared) const {
    const V value = hn::Mul(Magnitude(d, Quotient(d, x, shared)), shared.scale);
    const V held = hn::Min(value, hn::Set(d, std::numeric_limits<float>::max()));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySignToAbs(held, x));
  }

  /// Of a plain block whose elements are all finite.
  HWY_INLINE V RoundFinite(D d, V x, const Shared& shared) const {
    const V value = hn::Mul(Magnitude(d, PlainQuotient(d, x, shared)), shared.scale);
    return hn::CopySignToAbs(value, x);
  }

  /// What many blocks share, whose largest magnitudes have these bits: Nvfp4Parameters::entry lane by lane.
  template <size_t kBlocks>
  class Shares {
   public:
    Shares(const Nvfp4Kernel& kernel, const int32_t* bits, size_t blocks) : bits_(bits) {
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
    void write_codes(uint8_t* codes, size_t blocks) const {
      for (size_t i = 0; i < blocks; ++i) codes[i] = e4m3fn_code(block_scale_[i]);
    }
    HWY_INLINE Shared at(D d, size_t i) const {
      const V scale = hn::Set(d, scale_[i]);
      return {scale, scale, hn::Set(d, reciprocal_[i])};
    }

   private:
    const int32_t* bits_;
    HWY_ALIGN float block_scale_[kBlocks];
    HWY_ALIGN float scale_[kBlocks];
    HWY_ALIGN float reciprocal_[kBlocks];
  };

  /// As BlockGridKernel::Code, with M = 1 and binades from 1 on.
  template <class Sign>
  HWY_INLINE hn::Vec<DI> Code(D d, V x, const Shared& shared, const Sign& sign) const {
    const DI di;
    const V quotient = PlainQuotient(d, x, shared);
    const V addend = Addend(d, quotient);
    const auto addend_bits = hn::BitCast(di, addend);
    const auto steps = hn::Sub(hn::BitCast(di, hn::Add(quotient, addend)), addend_bits);
    const auto binades = hn::Sub(addend_bits, hn::BitCast(di, hn::Set(d, 0x1p22F)));
    return sign.Code(hn::Add(steps, hn::ShiftRight<22>(binades)), x);
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
  static HWY_INLINE V Binade(D d, V x) { return hn::And(x, hn::BitCast(d, hn::Set(DI(), 0x7F800000))); }

  /// The e4m3fn value nearest to max / 6 / tensor scale, as round_to_e4m3fn does it.
  HWY_INLINE V BlockScale(D d, V max) const {
    const V tensor_scale = hn::Set(d, parameters_.tensor_scale);
    const V largest = hn::Set(d, 448.0F);
    const V held = hn::Min(hn::Div(hn::Div(max, hn::Set(d, 6.0F)), tensor_scale), largest);
    const V addend = hn::Mul(hn::Max(Binade(d, held), hn::Set(d, 0x1p-6F)), hn::Set(d, 0x1p20F));
    const V rounded = hn::Sub(hn::Add(held, addend), addend);
    return hn::IfThenElse(hn::Gt(max, hn::Zero(d)), rounded, largest);
  }

  HWY_INLINE V Scale(D d, V block_scale) const {
    return hn::Mul(block_scale, hn::Set(d, parameters_.tensor_scale));
  }

  /// Of the element.
  static HWY_INLINE V Magnitude(D d, V quotient) {
    const V addend = Addend(d, quotient);
    return hn::Sub(hn::Add(quotient, addend), addend);
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
  static HWY_INLINE V Addend(D d, V quotient) {
    return hn::Mul(hn::Max(Binade(d, quotient), hn::Set(d, 1.0F)), hn::Set(d, 0x1p22F));
  }

  const Nvfp4Parameters& parameters_;
};

template <class D>
auto MakeBlockKernel(D d, const Nvfp4Parameters& parameters) {
  return Nvfp4Kernel<D>(d, parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_NVFP4_INL_H_
