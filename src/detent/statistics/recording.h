#pragma once

#include <optional>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/statistics/state_bytes.h"

namespace detent {

/// The samples, all of one shape, ordered by index; samples of equal or no index by their values, so that the
/// order is a property of the data.
class Recording {
 public:
  explicit Recording(int64_t max_bytes) : max_bytes_(max_bytes) {}

  /// Adds a batch of samples, of which the first has the index `first_sample`, if known. Throws Error when
  /// shapes differ, or, before anything changes, when the values would need more than `max_bytes` bytes.
  void add(const Tensor& batch, std::optional<int64_t> first_sample);
  void merge(const Recording& other);

  /// Shape of one sample; empty where there is none.
  const Shape& sample_shape() const { return sample_shape_; }
  int64_t bytes() const { return bytes_; }
  /// In order.
  std::vector<std::vector<float>> samples() const;

  void write(StateWriter& writer) const;
  void read(StateReader& reader);

 private:
  struct Sample {
    uint64_t index;  // the largest: unknown
    std::vector<float> values;
  };
  /// Throws Error if the shape does not match, or `more` bytes exceed the limit.
  void check(const Shape& shape, int64_t more) const;
  std::vector<const Sample*> sorted() const;

  int64_t max_bytes_;
  int64_t bytes_ = 0;
  Shape sample_shape_;
  std::vector<Sample> samples_;
};

}  // namespace detent
