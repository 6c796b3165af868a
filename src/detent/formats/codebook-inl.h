// Per-target include guard
#if defined(DETENT_FORMATS_CODEBOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_CODEBOOK_INL_H_
#undef DETENT_FORMATS_CODEBOOK_INL_H_
#else
#define DETENT_FORMATS_CODEBOOK_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <bit>

#include "detent/formats/codebook.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Binary search without branches. Of level l = 0, 1, ... there are 2^l bounds, which one being given by the
/// outcomes of the levels before: as the bits of an index, the first outcome the lowest. One instruction
/// looks up a row of them, by the first outcomes; among the rows of larger tables the later outcomes choose.
/// Levels beneath those, of still larger codebooks, are gathered.
template <class D>
class CodebookKernel {
  using V = hn::Vec<D>;
  using M = hn::Mask<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;
  static constexpr bool kTwoVectors = HWY_TARGET <= HWY_AVX3;  // looked up in by one instruction
  static constexpr int kRowLevels = hwy::CeilLog2(hn::MaxLanes(D())) + (kTwoVectors ? 1 : 0);
  static constexpr int kTableLevels = kRowLevels + 3;
  static constexpr size_t kEntries = size_t{1} << kTableLevels;

 public:
  CodebookKernel(D /*d*/, const CodebookParameters& p)
      : bounds_(p.bounds.data()),
        values_(p.values.data()),
        levels_(std::max(p.levels, 1)),
        in_tables_(std::min(levels_, kTableLevels)) {
    for (int level = 0; level < in_tables_; ++level) {
      for (int i = 0; i < 1 << level; ++i) {
        of_level_[level][i] = bounds_[FirstEntry(i, level) + (1 << (levels_ - level - 1)) - 1];
      }
    }
    for (int i = 0; i < 1 << in_tables_; ++i) {
      const int entry = FirstEntry(i, in_tables_);
      results_[i] = in_tables_ == levels_ ? values_[entry] : std::bit_cast<float>(entry);
    }
  }

  /// Calls visit(kernel) with one for the number of levels.
  template <int kLevels = 1, class Visit>
  HWY_INLINE void Specialise(const Visit& visit) const {
    if constexpr (kLevels < kTableLevels) {
      if (in_tables_ != kLevels) return Specialise<kLevels + 1>(visit);
    }
    visit([this](D d, V x, uint64_t /*index*/)
              HWY_ATTR { return hn::IfThenElse(hn::IsNaN(x), x, Nearest<kLevels>(d, x)); });
  }

 private:
  /// The first of the codebook's entries that are left after `level` outcomes.
  int FirstEntry(int outcomes, int level) const {
    int entry = 0;
    for (int i = 0; i < level; ++i) entry |= (outcomes >> i & 1) << (levels_ - 1 - i);
    return entry;
  }

  /// kLevels is in_tables_ or less.
  template <int kLevels>
  HWY_INLINE V Nearest(D d, V x) const {
    VI row_index = hn::Zero(DI());
    M above[size_t{kLevels}];
    Search<0, kLevels>(d, x, row_index, above);
    const V result = LookUp<kLevels>(d, results_, row_index, above);
    if (levels_ == kLevels) return result;
    return Gathered(d, x, hn::BitCast(DI(), result), levels_ - kLevels);
  }

  template <int kLevel, int kLevels>
  HWY_INLINE void Search(D d, V x, VI& row_index, M* above) const {
    if constexpr (kLevel < kLevels) {
      const DI di;
      above[kLevel] = hn::Gt(x, LookUp<kLevel>(d, of_level_[kLevel], row_index, above));
      if constexpr (kLevel < kRowLevels) {
        const auto bit = hn::Set(di, 1 << kLevel);
        row_index = hn::IfThenElse(hn::RebindMask(di, above[kLevel]), hn::Or(row_index, bit), row_index);
      }
      Search<kLevel + 1, kLevels>(d, x, row_index, above);
    }
  }

  /// Of a table whose index is the outcomes of kLevels levels.
  template <int kLevels>
  static HWY_INLINE V LookUp(D d, const float* table, VI row_index, const M* above) {
    if constexpr (kLevels > kRowLevels) {
      const V low = LookUp<kLevels - 1>(d, table, row_index, above);
      const V high = LookUp<kLevels - 1>(d, table + (1 << (kLevels - 1)), row_index, above);
      return hn::IfThenElse(above[kLevels - 1], high, low);
    } else if constexpr (size_t{1} << kLevels > hn::MaxLanes(d)) {
#if HWY_TARGET <= HWY_AVX3
      return V{_mm512_permutex2var_ps(hn::Load(d, table).raw, row_index.raw, hn::Load(d, table + 16).raw)};
#endif
    } else if constexpr (kLevels == 0) {
      return hn::Set(d, table[0]);
    } else {
      return hn::TableLookupLanes(hn::Load(d, table), hn::IndicesFromVec(d, row_index));
    }
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
  int in_tables_;  // levels
  HWY_ALIGN float of_level_[size_t{kTableLevels}][std::max(kEntries / 2, hn::MaxLanes(D()))] = {};
  HWY_ALIGN float results_[std::max(kEntries, hn::MaxLanes(D()))] = {};  // values, or entries of the codebook
};

template <class D>
auto MakeKernel(D d, const CodebookParameters& parameters, uint64_t /*first_index*/) {
  return CodebookKernel<D>(d, parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_CODEBOOK_INL_H_
