#include "detent/formats/elements/codebook.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/elements/codebook.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/formats/elements/element_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Binary search without branches. Of level l = 0, 1, ... there are 2^l bounds, which one being given by the
/// outcomes of the levels before: as the bits of an index, the first outcome the lowest. One instruction
/// looks up a row of them, by the first outcomes; among the rows of larger tables the later outcomes choose.
/// Levels beneath those, of still larger codebooks, are gathered.
template <class D>
class CodebookSearch {
  using V = hn::Vec<D>;
  using M = hn::Mask<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;
  static constexpr bool kTwoVectors = HWY_TARGET <= HWY_AVX3;  // looked up in by one instruction
  static constexpr int kRowLevels = hwy::CeilLog2(hn::MaxLanes(D())) + (kTwoVectors ? 1 : 0);
  static constexpr int kTableLevels = kRowLevels + 3;
  static constexpr size_t kEntries = size_t{1} << kTableLevels;

 public:
  CodebookSearch(D /*d*/, const CodebookParameters& p)
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
      entries_[i] = std::bit_cast<float>(entry);
      results_[i] = in_tables_ == levels_ ? values_[entry] : entries_[i];
    }
  }

  /// The codes are entries; those after the last value decode to it.
  template <int kLevels>
  class Kernel {
   public:
    explicit Kernel(const CodebookSearch& search) : search_(search) {}

    HWY_INLINE V Round(D d, V x, uint64_t /*index*/) const {
      return hn::IfThenElse(hn::IsNaN(x), x, search_.template Nearest<kLevels>(d, x));
    }
    HWY_INLINE VI Encode(D d, V x, uint64_t /*index*/) const { return search_.template Entry<kLevels>(d, x); }
    HWY_INLINE V Decode(D d, VI code) const { return hn::GatherIndex(d, search_.values_, code); }

   private:
    const CodebookSearch& search_;
  };

  /// Calls visit(kernel) with one for the number of levels.
  template <int kLevels = 1, class Visit>
  HWY_INLINE void Specialise(const Visit& visit) const {
    if constexpr (kLevels < kTableLevels) {
      if (in_tables_ != kLevels) return Specialise<kLevels + 1>(visit);
    }
    visit(Kernel<kLevels>(*this));
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

  /// Looks up a table whose index is the outcomes of kLevels levels.
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

  template <int kLevels>
  HWY_INLINE VI Entry(D d, V x) const {
    const DI di;
    VI row_index = hn::Zero(di);
    M above[size_t{kLevels}];
    Search<0, kLevels>(d, x, row_index, above);
    const VI entry = hn::BitCast(di, LookUp<kLevels>(d, entries_, row_index, above));
    return levels_ == kLevels ? entry : GatheredEntry(d, x, entry, levels_ - kLevels);
  }

  V Gathered(D d, V x, VI entry, int levels) const {
    return hn::GatherIndex(d, values_, GatheredEntry(d, x, entry, levels));
  }

  VI GatheredEntry(D d, V x, VI entry, int levels) const {
    const DI di;
    for (int32_t step = 1 << (levels - 1); step > 0; step /= 2) {
      const V bound = hn::GatherIndex(d, bounds_, hn::Add(entry, hn::Set(di, step - 1)));
      const auto above = hn::RebindMask(di, hn::Gt(x, bound));
      entry = hn::Add(entry, hn::IfThenElseZero(above, hn::Set(di, step)));
    }
    return entry;
  }

  const float* bounds_;
  const float* values_;
  int levels_;
  int in_tables_;  // levels
  HWY_ALIGN float of_level_[size_t{kTableLevels}][std::max(kEntries / 2, hn::MaxLanes(D()))] = {};
  HWY_ALIGN float entries_[std::max(kEntries, hn::MaxLanes(D()))] = {};  // as bits
  HWY_ALIGN float results_[std::max(kEntries, hn::MaxLanes(D()))] = {};  // values, or entries as bits
};

template <class D>
struct CodebookKernel {
  template <class Visit>
  static HWY_INLINE void With(D d, const CodebookParameters& p, uint64_t /*first_index*/,
                              const Visit& visit) {
    const CodebookSearch<D> search(d, p);
    search.Specialise(visit);
  }
};

ElementKernels<CodebookParameters> CodebookKernels() {
  return KernelsOf<CodebookParameters, CodebookKernel>();
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(CodebookKernels);

ElementKernels<CodebookParameters> CodebookParameters::kernels() {
  return HWY_DYNAMIC_DISPATCH(CodebookKernels)();
}

void separate_entries(std::vector<float>& ascending) {
  constexpr float kMax = std::numeric_limits<float>::max();
  for (size_t i = 1; i < ascending.size(); ++i) {
    if (ascending[i] <= ascending[i - 1]) ascending[i] = std::nextafter(ascending[i - 1], kMax);
  }
  for (size_t i = ascending.size() - 1; i > 0; --i) {  // those that reached the end step back
    if (ascending[i - 1] >= ascending[i]) ascending[i - 1] = std::nextafter(ascending[i], -kMax);
  }
}

Codebook Codebook::qparams_from_range(std::span<const Interval> ranges, ScaleForm form) const {
  constexpr auto kMax = static_cast<double>(std::numeric_limits<float>::max());
  double largest = 0;
  for (const float entry : entries) largest = std::max(largest, std::fabs(static_cast<double>(entry)));
  const double magnitude = format_detail::largest_magnitude(ranges);
  if (largest == 0 || magnitude == 0) return *this;
  const double exact = magnitude / largest;
  const double factor = form == ScaleForm::kPowerOfTwo
                            ? static_cast<double>(format_detail::power_of_two_not_below(exact))
                            : exact;
  Codebook result = *this;
  for (float& entry : result.entries)
    entry = static_cast<float>(std::clamp(static_cast<double>(entry) * factor, -kMax, kMax));
  separate_entries(result.entries);
  return result;
}

void Codebook::validate(const std::string& where) const {
  if (entries.empty() || entries.size() > 65536) {
    fail("{}: key \"values\": got {} values, expected at least 1 and at most 65536", where, entries.size());
  }
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i - 1] < entries[i]) continue;
    fail("{}: key \"values\": got {} at index {} after {}, expected ascending values", where,
         float_text(static_cast<double>(entries[i])), i, float_text(static_cast<double>(entries[i - 1])));
  }
}

namespace {

/// The largest float32 not above (low + high) / 2, as in exact arithmetic: the sum of two float32 may not fit
/// a double, and then what its rounding added or left out decides.
float last_at_or_below_middle(float low, float high) {
  const auto a = static_cast<double>(low);
  const auto b = static_cast<double>(high);
  const double sum = a + b;
  const double b_part = sum - a;
  const double left_out = (a - (sum - b_part)) + (b - b_part);  // Knuth's TwoSum
  const float below = round_down(sum / 2);
  const bool too_high = static_cast<double>(below) == sum / 2 && left_out < 0;
  return too_high ? std::nextafter(below, -std::numeric_limits<float>::infinity()) : below;
}

}  // namespace

CodebookParameters Codebook::parameters() const {
  constexpr size_t kFewest = 32;
  const size_t size = std::max(kFewest, std::bit_ceil(entries.size()));
  Parameters result{.bounds = std::vector<float>(size, std::numeric_limits<float>::infinity()),
                    .values = entries,
                    .levels = levels()};
  for (size_t i = 1; i < entries.size(); ++i) {
    result.bounds[i - 1] = last_at_or_below_middle(entries[i - 1], entries[i]);
  }
  result.values.resize(size, entries.back());
  return result;
}

Interval Codebook::unsaturated(const Parameters& /*parameters*/) const {
  return {entries.front(), entries.back()};
}

int Codebook::levels() const {
  return entries.empty() ? 0 : static_cast<int>(std::bit_width(entries.size() - 1));
}

}  // namespace detent
#endif  // HWY_ONCE
