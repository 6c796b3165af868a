#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

/// linear_sums of a few rows at a time by the same weights, which are packed once: the same bits.
class PackedLinear {
 public:
  /// weight [out, in], bias [out].
  PackedLinear(const Tensor& weight, const std::optional<Tensor>& bias);

  /// How far rows of results lie apart: `out`, filled up for vectors.
  int64_t stride() const { return stride_; }
  /// inputs [rows, in], results [rows, stride()].
  void sums(const float* inputs, int64_t rows, float* results) const;

 private:
  void panel_sums(int64_t first, const float* inputs, int64_t rows, float* results) const;

  int64_t depth_;
  int64_t stride_;
  std::vector<float> weights_;  // panels of outputs, of each [in, outputs]
  std::vector<float> bias_;     // -0 where there is none: that changes no sum
};

}  // namespace detent
