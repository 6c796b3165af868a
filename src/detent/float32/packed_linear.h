#pragma once

#include <cstdint>
#include <optional>

#include "detent/core/tensor.h"

namespace detent {

/// linear_sums by weights that are packed once: the same bits. Each output is one chain of additions, so a
/// row is computed in as many chains as registers hold. Weights that bfloat16 holds, all of them, are kept in
/// it: a few rows take the time in which weights are read.
class PackedLinear {
 public:
  /// weight [out, in], bias [out].
  PackedLinear(const Tensor& weight, const std::optional<Tensor>& bias);

  int64_t depth() const { return depth_; }
  /// How far rows of results lie apart: `out`, filled up for vectors.
  int64_t stride() const { return stride_; }
  int64_t byte_size() const { return static_cast<int64_t>(weights_.byte_size() + bias_.byte_size()); }
  /// inputs [rows, in], results [rows, stride()]. Who multiplies by the same weights again and again lets
  /// every other product read them backwards, beginning with those that are still in the cache.
  void sums(const float* inputs, int64_t rows, float* results, bool backwards = false) const;
  /// The same of inputs that are all 0.
  void sums_of_zeros(int64_t rows, float* results) const;

 private:
  int64_t panels() const;
  int64_t panel_width(int64_t panel) const;
  template <class Word>
  void pack(const Tensor& weight);
  void panel_sums(int64_t panel, const float* inputs, int64_t rows, float* results) const;

  int64_t depth_;
  int64_t stride_;
  bool is_finite_ = true;
  Tensor weights_;  // panels of outputs, of each [in, outputs]; float32 or bfloat16
  Tensor bias_;     // -0 where there is none: that changes no sum
};

}  // namespace detent
