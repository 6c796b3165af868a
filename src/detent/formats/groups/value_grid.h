#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/format.h"
#include "detent/formats/groups/grouping.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// The values that elements of a tensor can take once all data-dependent parameters are fixed: one ascending
/// list per group. Algorithms that choose among them can rely on quantization to keep their choice.
class ValueGrid {
 public:
  /// Why the format has too many values to list (more than 16 bits); "" otherwise.
  static std::string obstacle(const QuantSpec& spec);

  /// With the parameters that `spec` gives `tensor` (float32, not empty). Throws Error, beginning with
  /// `where`, on formats whose values follow the elements themselves (blocks, stochastic ones), on more than
  /// 16 bits and on a learned scale.
  ValueGrid(const QuantSpec& spec, const Tensor& tensor, const std::string& where);

  /// The spec for the chosen values: fake_quantize() leaves tensors of these values unchanged.
  const QuantSpec& spec() const { return spec_; }
  /// Values of the group that the element with this row-major index belongs to; not empty.
  std::span<const float> values(int64_t element) const {
    return lists_[lists_.size() == 1 ? 0 : static_cast<size_t>(grouping_.group_of(element))];
  }

  /// `x` in the place of that element, as the format rounds it with these parameters. 0 has no sign.
  float rounded(int64_t element, float x) const;

 private:
  QuantSpec spec_;
  Grouping grouping_;
  GroupParameters parameters_;
  std::vector<std::vector<float>> lists_;  // one for all groups, or one a group
};

}  // namespace detent
