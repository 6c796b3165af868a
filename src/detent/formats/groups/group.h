#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "detent/formats/groups/grouping.h"

namespace detent {

/// One group of a tensor, for formats that derive parameters from the data.
class Group {
 public:
  /// `range` is what range_with_zero gives, where that is known.
  Group(std::span<const float> values, const Grouping& grouping, int64_t index,
        const Interval* range = nullptr)
      : values_(values), grouping_(grouping), index_(index), range_(range) {}

  /// Sum and number of the finite |x| above `bound`. NaN and infinities have no part in statistics: one of
  /// them would decide the parameters of the whole group. Summed in double over chunks of fixed size, in
  /// order, so that neither threads nor the vector width change the result.
  MagnitudeSum magnitudes_above(float bound) const;
  /// The same over all finite elements.
  MagnitudeSum magnitudes() const { return magnitudes_above(-1.0F); }

  /// Magnitudes of what is left after subtracting, one after another and in float32, each gamma with the sign
  /// of the rest so far (+ for 0). At most kMostGammas.
  MagnitudeSum residual_magnitudes(std::span<const float> gammas) const;
  /// The smallest interval that holds 0 and all finite elements.
  Interval range_with_zero() const;

  /// The largest finite |x|, 0 when there is none.
  float largest_magnitude() const;

  int64_t index() const { return index_; }
  int64_t group_count() const { return grouping_.groups(); }
  int64_t element_count() const { return grouping_.size(index_); }
  /// "the tensor", "channel 3" or "group 3".
  std::string name() const;

 private:
  /// Folds the results of `of_part` over chunks of fixed size, in order.
  template <class Result, class OfPart, class Fold>
  Result reduce(const OfPart& of_part, const Fold& fold) const;

  MagnitudeSum sum_of(std::span<const float> gammas, float bound) const;

  std::span<const float> values_;
  Grouping grouping_;
  int64_t index_;
  const Interval* range_;
};

/// The elements of every group, in order.
std::vector<std::vector<float>> values_by_group(std::span<const float> values, const Grouping& grouping);

/// range_with_zero of every group, where groups take turns along a row: in one pass over the rows.
std::vector<Interval> ranges_of_columns(std::span<const float> values, const Grouping& grouping);

}  // namespace detent
