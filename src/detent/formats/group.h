#pragma once

#include <cstdint>
#include <span>
#include <string>

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

/// One group of a tensor, as formats see it that derive parameters from the data.
class Group {
 public:
  Group(std::span<const float> values, const Grouping& grouping, int64_t index)
      : values_(values), grouping_(grouping), index_(index) {}

  /// Sum and number of the finite |x| above `bound`. NaN and infinities have no part in statistics: one of
  /// them would decide the parameters of the whole group. Summed in double over chunks of fixed size, in
  /// order, so that neither threads nor the vector width change the result.
  MagnitudeSum magnitudes_above(float bound) const;
  /// The same over all finite elements.
  MagnitudeSum magnitudes() const { return magnitudes_above(-1.0F); }

  /// What is left of them after subtracting, one after another and in float32, each gamma with the sign of
  /// what the ones before left (+ for 0).
  MagnitudeSum residual_magnitudes(std::span<const float> gammas) const;
  /// The smallest interval that holds 0 and all finite elements.
  Interval range_with_zero() const;

  /// The largest finite |x|, 0 when there is none.
  float largest_magnitude() const;

  int64_t index() const { return index_; }
  int64_t group_count() const { return grouping_.groups; }
  int64_t element_count() const { return grouping_.outer * grouping_.inner; }
  /// "the tensor" or "channel 3".
  std::string name() const;

 private:
  /// Calls visit(pointer, size) for each run of adjacent elements among the group's [begin, end).
  template <class Visit>
  void for_each_run(int64_t begin, int64_t end, const Visit& visit) const;
  /// Sum and number of the finite |map(x)| above `bound`.
  template <class Map>
  MagnitudeSum sum_magnitudes(float bound, const Map& map) const;

  std::span<const float> values_;
  Grouping grouping_;
  int64_t index_;
};

}  // namespace detent
