// Per-target include guard
#if defined(DETENT_FORMATS_CODEBOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_CODEBOOK_INL_H_
#undef DETENT_FORMATS_CODEBOOK_INL_H_
#else
#define DETENT_FORMATS_CODEBOOK_INL_H_
#endif

#include <hwy/highway.h>

#include "detent/formats/codebook.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Binary search without branches: the index grows by 2^(levels-1), ..., 2, 1 where x is above the bound just
/// before. Tables that fit two vectors stay in registers, others are gathered from.
template <class D>
class CodebookKernel {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;

 public:
  CodebookKernel(D d, const CodebookParameters& p)
      : bounds_(p.bounds.data()), values_(p.values.data()), levels_(p.levels) {
    const size_t lanes = hn::Lanes(d);
    in_registers_ = (size_t{1} << levels_) <= 2 * lanes && p.bounds.size() >= 2 * lanes;
    if (!in_registers_) return;
    low_bounds_ = hn::LoadU(d, bounds_);
    high_bounds_ = hn::LoadU(d, bounds_ + lanes);
    low_values_ = hn::LoadU(d, values_);
    high_values_ = hn::LoadU(d, values_ + lanes);
  }

  V operator()(D d, V x, uint64_t /*index*/) const {
    V result;
    if (in_registers_) {
      const VI index = Search(x, [&](VI at) { return InRegisters(d, low_bounds_, high_bounds_, at); });
      result = InRegisters(d, low_values_, high_values_, index);
    } else {
      const VI index = Search(x, [&](VI at) { return hn::GatherIndex(d, bounds_, at); });
      result = hn::GatherIndex(d, values_, index);
    }
    return hn::IfThenElse(hn::IsNaN(x), x, result);
  }

 private:
  V InRegisters(D d, V low, V high, VI index) const {
    const DI di;
    const auto lanes = static_cast<int32_t>(hn::Lanes(d));
    const auto within = hn::IndicesFromVec(d, hn::And(index, hn::Set(di, lanes - 1)));
    const V from_low = hn::TableLookupLanes(low, within);
    if ((1 << levels_) <= lanes) return from_low;
    const auto in_high = hn::RebindMask(d, hn::Gt(index, hn::Set(di, lanes - 1)));
    return hn::IfThenElse(in_high, hn::TableLookupLanes(high, within), from_low);
  }

  template <class BoundAt>
  VI Search(V x, const BoundAt& bound_at) const {
    const DI di;
    VI index = hn::Zero(di);
    for (int32_t step = levels_ == 0 ? 0 : 1 << (levels_ - 1); step > 0; step /= 2) {
      const V bound = bound_at(hn::Add(index, hn::Set(di, step - 1)));
      const auto above = hn::RebindMask(di, hn::Gt(x, bound));
      index = hn::Add(index, hn::IfThenElseZero(above, hn::Set(di, step)));
    }
    return index;
  }

  const float* bounds_;
  const float* values_;
  int levels_;
  bool in_registers_;
  V low_bounds_ = hn::Zero(D()), high_bounds_ = hn::Zero(D());
  V low_values_ = hn::Zero(D()), high_values_ = hn::Zero(D());
};

template <class D>
auto MakeKernel(D d, const CodebookParameters& parameters, uint64_t /*first_index*/) {
  return CodebookKernel<D>(d, parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_CODEBOOK_INL_H_
