#pragma once

#include <cstdint>
#include <span>
#include <string>

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

  /// The largest finite |x|, 0 when there is none.
  float largest_magnitude() const;

  int64_t element_count() const { return grouping_.outer * grouping_.inner; }
  /// "the tensor" or "channel 3".
  std::string name() const;

 private:
  /// Calls visit(values, count) for the runs of contiguous elements of [begin, end).
  template <class Visitor>
  void visit_runs(int64_t begin, int64_t end, Visitor&& visit) const;
  MagnitudeSum chunk_sum(int64_t begin, int64_t end, float bound) const;

  std::span<const float> values_;
  Grouping grouping_;
  int64_t index_;
};

}  // namespace detent
