#pragma once

#include <cstdint>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/traits.h"

namespace detent {

/// Outputs of a layer in float and quantized, at the same positions. Of many positions a half, a quarter, ...
/// is kept: memory stays bounded. Which ones, a hash of their sample's values decides, so that neither the
/// order of samples nor how they are cut into batches shows.
class OutputPairs {
 public:
  /// Keeps at most so many numbers.
  explicit OutputPairs(int64_t most_numbers = int64_t{1} << 24) : most_numbers_(most_numbers) {}

  /// Two tensors (float32) of one shape, whose dimension `channel_axis` is that of the channels, and
  /// dimension 0, unless it is that, of samples.
  void add(const Tensor& wanted, const Tensor& got, size_t channel_axis);
  /// Brings positions into an order that does not depend on that of samples, for sums that are rounded.
  void sort();

  int64_t channels() const { return channels_; }
  int64_t positions() const { return channels_ == 0 ? 0 : std::ssize(wanted_) / channels_; }
  /// Shift b of each channel that makes the sum of (clamp(wanted) - clamp(got + b))^2 small: from 0 and from
  /// the mean of wanted - got by Newton's method, whichever ends lower, and 0 where neither is better.
  /// Outputs that both networks cut off have no part in it, so that a channel that is seldom above 0 is
  /// corrected for the times when it is.
  std::vector<double> shifts(const Clamp& clamp) const;

 private:
  void add_sample(const float* wanted, const float* got, int64_t outer, int64_t inner);
  void halve();

  int64_t most_numbers_;
  int64_t channels_ = 0;
  uint64_t mask_ = 0;  // positions are kept whose keys have none of these bits
  std::vector<uint64_t> keys_;
  std::vector<float> wanted_;  // [positions, channels]
  std::vector<float> got_;
};

}  // namespace detent
