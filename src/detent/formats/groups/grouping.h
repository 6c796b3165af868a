#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "detent/formats/float_bits.h"

namespace detent {

/// How a row-major tensor of `outer` x `length` x `inner` elements falls into groups that share parameters:
/// channel c holds all elements with place c along `length`, and is one group, or groups of `run` elements
/// that follow each other in it, its last group maybe of fewer. The groups of channel 0 come first.
struct Grouping {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 0;
  int64_t run = 0;  // 0: whole channels

  /// Longer runs of adjacent elements of a group are processed one by one.
  static constexpr int64_t kLongRun = 32;
  /// Whether groups take turns along a row, in short runs.
  bool takes_turns() const { return length > 1 && run == 0 && inner < kLongRun; }

  int64_t elements() const { return outer * length * inner; }
  int64_t channel_groups() const { return run == 0 ? 1 : (outer * inner + run - 1) / run; }
  int64_t groups() const { return length * channel_groups(); }
  /// Elements of a group.
  int64_t size(int64_t group) const {
    if (run == 0) return outer * inner;
    return std::min(run, outer * inner - group % channel_groups() * run);
  }
  /// The group of the element with this row-major index.
  int64_t group_of(int64_t element) const {
    const int64_t row = element / inner;
    if (run == 0) return row % length;
    return row % length * channel_groups() + place_in_channel(element) / run;
  }
  /// One beyond the last of the adjacent elements that share the group of `element`.
  int64_t end_of_run(int64_t element) const {
    const int64_t end_of_row = (element / inner + 1) * inner;
    if (run == 0) return end_of_row;
    return std::min(end_of_row, element + run - place_in_channel(element) % run);
  }

 private:
  int64_t place_in_channel(int64_t element) const {
    return element / inner / length * inner + element % inner;
  }
};

/// Calls visit(group, first, last) for each run of adjacent elements of one group in [begin, end). The
/// indices of a run agree in their upper 32 bits, which random draws need.
template <class Visit>
void for_each_run(const Grouping& grouping, int64_t begin, int64_t end, const Visit& visit) {
  for (int64_t i = begin; i < end;) {
    const int64_t last = std::min({end, grouping.end_of_run(i), (i | 0xFFFFFFFF) + 1});
    visit(grouping.group_of(i), i, last);
    i = last;
  }
}

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
    const int64_t channel = index / grouping.channel_groups();
    const int64_t first = index % grouping.channel_groups() * grouping.run;
    for (int64_t position = first + begin; position < first + end;) {
      const int64_t row = position / grouping.inner;
      const int64_t column = position % grouping.inner;
      const int64_t size = std::min(grouping.inner - column, first + end - position);
      visit(values + (row * grouping.length + channel) * grouping.inner + column, size);
      position += size;
    }
  }
};

/// Interleaved running sums in double: element i goes to sum i mod kRunningSums, and the sums are added in
/// order at the end. Vector units of any width can keep this order.
constexpr int64_t kRunningSums = 16;

/// The largest number of gammas below.
constexpr size_t kMostGammas = 8;

/// Sum and number of the |r| that are finite and above `bound`, where r is what is left of x after
/// subtracting, one after another and in float32, each gamma with the sign of what the ones before left (+
/// for 0). The caller holds a DefaultFloatEnvironment.
MagnitudeSum sum_magnitudes(const GroupPart& part, std::span<const float> gammas, float bound);

/// The smallest interval that holds 0 and all finite elements.
Interval range_with_zero(const GroupPart& part);

/// Widens each column's range by the finite elements of `rows` adjacent rows of low.size() columns.
void widen_ranges(const float* values, int64_t rows, std::span<float> low, std::span<float> high);

/// The largest finite |x|, 0 when there is none.
float largest_magnitude(const GroupPart& part);

}  // namespace detent
