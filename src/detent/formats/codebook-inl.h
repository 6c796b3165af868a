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

/// Binary search without branches. Of level l = 0, 1, ... there are 2^l bounds, which one being given by the
/// outcomes of the levels before: as the bits of an index, the first outcome the lowest. The upper levels are
/// looked up in registers, as long as one holds a level; those beneath, of larger tables, are gathered.
template <class D>
class CodebookKernel {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;
  static constexpr int kMaxLevels = hwy::CeilLog2(hn::MaxLanes(D())) + 1;

 public:
  CodebookKernel(D d, const CodebookParameters& p)
      : bounds_(p.bounds.data()),
        values_(p.values.data()),
        levels_(std::max(p.levels, 1)),
        in_registers_(std::min(levels_, kMaxLevels)) {
    const int beneath = levels_ - in_registers_;
    for (int level = 0; level < in_registers_; ++level) {
      HWY_ALIGN float bounds[hn::MaxLanes(d)] = {};
      for (int i = 0; i < 1 << level; ++i) {
        bounds[i] = bounds_[FirstEntry(i, level) + (1 << (levels_ - level - 1)) - 1];
      }
      of_level_[level] = hn::Load(d, bounds);
    }
    HWY_ALIGN float values[2][hn::MaxLanes(d)] = {};
    HWY_ALIGN int32_t entries[2][hn::MaxLanes(d)] = {};
    for (int i = 0; i < 1 << (in_registers_ - 1); ++i) {
      for (int last = 0; last < 2; ++last) {
        const int entry = FirstEntry(i, in_registers_ - 1) + (last << beneath);
        values[last][i] = values_[entry];
        entries[last][i] = entry;
      }
    }
    low_values_ = hn::Load(d, values[0]);
    high_values_ = hn::Load(d, values[1]);
    low_entries_ = hn::Load(DI(), entries[0]);
    high_entries_ = hn::Load(DI(), entries[1]);
  }

  HWY_INLINE V operator()(D d, V x, uint64_t /*index*/) const {
    return hn::IfThenElse(hn::IsNaN(x), x, Nearest<1>(d, x));
  }

 private:
  /// The first of the table's entries that are left after `level` outcomes.
  int FirstEntry(int outcomes, int level) const {
    int entry = 0;
    for (int i = 0; i < level; ++i) entry |= (outcomes >> i & 1) << (levels_ - 1 - i);
    return entry;
  }

  /// kLevels is in_registers_ or less.
  template <int kLevels>
  HWY_INLINE V Nearest(D d, V x) const {
    if constexpr (kLevels < kMaxLevels) {
      if (in_registers_ != kLevels) return Nearest<kLevels + 1>(d, x);
    }
    const DI di;
    VI outcomes = hn::Zero(di);
    for (int level = 0; level + 1 < kLevels; ++level) {
      const V bound = hn::TableLookupLanes(of_level_[level], hn::IndicesFromVec(d, outcomes));
      const auto above = hn::RebindMask(di, hn::Gt(x, bound));
      outcomes = hn::Add(outcomes, hn::IfThenElseZero(above, hn::Set(di, 1 << level)));
    }
    const auto at = hn::IndicesFromVec(d, outcomes);
    const auto above = hn::Gt(x, hn::TableLookupLanes(of_level_[kLevels - 1], at));
    if (levels_ == kLevels) {
      return hn::IfThenElse(above, hn::TableLookupLanes(high_values_, at),
                            hn::TableLookupLanes(low_values_, at));
    }
    const auto int_at = hn::IndicesFromVec(di, outcomes);
    const VI entry = hn::IfThenElse(hn::RebindMask(di, above), hn::TableLookupLanes(high_entries_, int_at),
                                    hn::TableLookupLanes(low_entries_, int_at));
    return Gathered(d, x, entry, levels_ - kLevels);
  }

  V Gathered(D d, V x, VI entry, int levels) const {
    const DI di;
    for (int32_t step = 1 << (levels - 1); step > 0; step /= 2) {
      const V bound = hn::GatherIndex(d, bounds_, hn::Add(entry, hn::Set(di, step - 1)));
      const auto above = hn::RebindMask(di, hn::Gt(x, bound));
      entry = hn::Add(entry, hn::IfThenElseZero(above, hn::Set(di, step)));
    }
    return hn::GatherIndex(d, values_, entry);
  }

  const float* bounds_;
  const float* values_;
  int levels_;
  int in_registers_;  // levels
  V of_level_[size_t{kMaxLevels}];
  V low_values_ = hn::Zero(D()), high_values_ = hn::Zero(D());  // by the last outcome
  VI low_entries_ = hn::Zero(DI()), high_entries_ = hn::Zero(DI());
};

template <class D>
auto MakeKernel(D d, const CodebookParameters& parameters, uint64_t /*first_index*/) {
  return CodebookKernel<D>(d, parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_CODEBOOK_INL_H_
