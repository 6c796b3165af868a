#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "detent/formats/float_bits.h"

namespace detent {

/// How a row-major tensor falls into groups that share parameters: `outer` x `groups` x `inner` elements;
/// group g holds, for every o < outer, the run of `inner` elements that begins at (o * groups + g) * inner.
struct Grouping {
  int64_t outer = 1;
  int64_t groups = 1;
  int64_t inner = 0;

  int64_t elements() const { return outer * groups * inner; }
};

struct MagnitudeSum {
  double sum = 0;
  int64_t count = 0;

  /// 0 when nothing was counted.
  double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

/// The elements [begin, end) of group `index` of a tensor.
struct GroupPart {
  const float* values;  // of the tensor
  Grouping grouping;
  int64_t index;
  int64_t begin;
  int64_t end;

  /// Calls visit(pointer, size) for each run of adjacent elements.
  template <class Visit>
  void for_each_run(const Visit& visit) const {
    for (int64_t position = begin; position < end;) {
      const int64_t row = position / grouping.inner;
      const int64_t column = position % grouping.inner;
      const int64_t size = std::min(grouping.inner - column, end - position);
      visit(values + (row * grouping.groups + index) * grouping.inner + column, size);
      position += size;
    }
  }
};

/// Running sums in double that the elements of a run take turns with: element i goes to sum i mod
/// kRunningSums, and at the end the sums are added one after another. An order that vector units of any width
/// can keep.
constexpr int64_t kRunningSums = 16;

/// The largest number of gammas below.
constexpr size_t kMostGammas = 8;

/// Sum and number of the |r| that are finite and above `bound`, where r is what is left of x after
/// subtracting, one after another and in float32, each gamma with the sign of what the ones before left (+
/// for 0). The caller holds a DefaultFloatEnvironment.
MagnitudeSum sum_magnitudes(const GroupPart& part, std::span<const float> gammas, float bound);

/// The smallest interval that holds 0 and all finite elements.
Interval range_with_zero(const GroupPart& part);

/// The largest finite |x|, 0 when there is none.
float largest_magnitude(const GroupPart& part);

}  // namespace detent
