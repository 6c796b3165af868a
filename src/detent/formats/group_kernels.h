#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "detent/formats/float_bits.h"

namespace detent {

/// How a row-major tensor of `outer` x `length` x `inner` elements falls into groups that share parameters.
///
/// Channels (run = 0): group c holds all elements with place c along `length`; the whole tensor is one where
/// length is 1. Else each group holds `run` adjacent places along `length`, for one place in `outer` and
/// `inner`, the last group of a line maybe fewer; groups are numbered in row-major order of [outer, groups a
/// line, inner].
struct Grouping {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 0;
  int64_t run = 0;  // at most `length`

  int64_t elements() const { return outer * length * inner; }
  /// Groups of a line along `length`.
  int64_t line_groups() const { return run == 0 ? length : (length + run - 1) / run; }
  int64_t groups() const { return run == 0 ? length : outer * line_groups() * inner; }
  /// Elements of a group.
  int64_t size(int64_t group) const {
    if (run == 0) return outer * inner;
    return std::min(run, length - group / inner % line_groups() * run);
  }
  /// Of the element with this row-major index.
  int64_t group_of(int64_t element) const {
    const int64_t row = element / inner;
    if (run == 0) return row % length;
    return (row / length * line_groups() + row % length / run) * inner + element % inner;
  }
  /// One beyond the last of the adjacent elements that share the group of `element`.
  int64_t end_of_run(int64_t element) const {
    const int64_t row = element / inner;
    if (run == 0) return (row + 1) * inner;
    if (inner > 1) return element + 1;
    return row / length * length + std::min((row % length / run + 1) * run, length);
  }
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
    if (grouping.run > 0) return for_each_run_of_line(visit);
    for (int64_t position = begin; position < end;) {
      const int64_t row = position / grouping.inner;
      const int64_t column = position % grouping.inner;
      const int64_t size = std::min(grouping.inner - column, end - position);
      visit(values + (row * grouping.length + index) * grouping.inner + column, size);
      position += size;
    }
  }

 private:
  template <class Visit>
  void for_each_run_of_line(const Visit& visit) const {
    const int64_t line = index / grouping.inner;
    const int64_t row = line / grouping.line_groups() * grouping.length +
                        line % grouping.line_groups() * grouping.run;
    const float* first = values + row * grouping.inner + index % grouping.inner;
    if (grouping.inner == 1) return visit(first + begin, end - begin);
    for (int64_t i = begin; i < end; ++i) visit(first + i * grouping.inner, 1);
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
