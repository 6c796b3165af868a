#pragma once

#include <cstdint>
#include <optional>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/traits.h"

namespace detent {

// Loops over the values of nodes, for the layer-wise errors.

/// How many elements of a node's inputs saturate, of those that are finite before and after.
class Saturation {
 public:
  void add(const QuantSpec& rounding, const Tensor& value);

  /// nullopt where nothing was added.
  std::optional<double> share() const {
    if (!has_any_) return std::nullopt;
    return finite_ == 0 ? 0.0 : static_cast<double>(saturated_) / static_cast<double>(finite_);
  }

 private:
  void add_integers(const Tensor& value, const Tensor& held);

  // Over all inputs, of all batches.
  int64_t finite_ = 0;
  int64_t saturated_ = 0;
  bool has_any_ = false;
};

/// The value where there is no clamp: the same tensor.
Tensor clamped(const Tensor& value, const std::optional<Clamp>& clamp);

/// How many elements of tensors of one shape have the same bytes.
int64_t equal_elements(const Tensor& expected, const Tensor& actual);

}  // namespace detent
