#pragma once

#include <cstdint>
#include <optional>

#include "detent/core/tensor.h"
#include "detent/formats/distinct_values.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// What quantization did to values, gathered in one pass and mergeable. Elements that are not finite before
/// or after are counted and have no part in the rest. Sums are in double over chunks of fixed size, in order,
/// so that threads do not change them.
class Distortion {
 public:
  /// Both float32, of the same shape. Throws Error otherwise.
  void update(const Tensor& original, const Tensor& quantized);
  /// What `unsaturated_mask` gave for the same elements; those with a 0 have saturated.
  void update_saturated(const Tensor& unsaturated);
  void merge(const Distortion& other);

  int64_t count() const { return count_; }
  int64_t nonfinite_count() const { return nonfinite_; }
  /// Largest |original - quantized|.
  double max_error() const { return max_error_; }
  /// Mean of (original - quantized)^2; 0 of nothing.
  double mean_squared_error() const;
  /// 10 log10(sum original^2 / sum error^2) in dB, higher is better: infinite without error, -infinite when
  /// only the error is not 0.
  double sqnr_db() const;
  /// Cosine of the angle between original and quantized as vectors: 1 when both are 0, 0 when one is.
  double cosine() const;
  /// Share of the quantized values that are 0.
  double zero_share() const;
  /// Share of the elements that saturated, when update_saturated told.
  std::optional<double> saturated_share() const;
  /// Different values among the quantized: the codes used, where all groups share one scale.
  const DistinctValues& distinct_values() const { return distinct_; }

 private:
  void add_chunk(const float* original, const float* quantized, int64_t count);

  int64_t count_ = 0;
  int64_t nonfinite_ = 0;
  int64_t zeros_ = 0;
  int64_t saturated_ = 0;
  int64_t saturation_known_ = 0;  // elements
  double signal_ = 0;             // sum of original^2
  double noise_ = 0;              // sum of (original - quantized)^2
  double product_ = 0;            // sum of original * quantized
  double power_ = 0;              // sum of quantized^2
  double max_error_ = 0;
  DistinctValues distinct_;
};

/// All measures of `input` (float32) against simulate(spec, input).
Distortion measure_distortion(const QuantSpec& spec, const Tensor& input, uint64_t seed = 0);
/// The same with room for the quantized elements, float32 of the input's shape; what is left there says
/// nothing.
Distortion measure_distortion(const QuantSpec& spec, const Tensor& input, Tensor& room, uint64_t seed = 0);

}  // namespace detent
