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

/// The values that the elements of a tensor can take once everything that its format derives from data is
/// fixed: one ascending list for each group. Who chooses among them by another rule than "the nearest" knows
/// that quantization will not move what was chosen.
class ValueGrid {
 public:
  /// Why the format's values are too many to be listed, "" where they are not: more than 16 bits.
  static std::string obstacle(const QuantSpec& spec);

  /// With the parameters that `spec` gives `tensor` (float32, not empty). Throws Error, beginning with
  /// `where`, on formats whose values follow the elements themselves (blocks, stochastic ones), on more than
  /// 16 bits and on a learned scale.
  ValueGrid(const QuantSpec& spec, const Tensor& tensor, const std::string& where);

  /// The spec that goes with the chosen values: fake_quantize() with it leaves every tensor as it is whose
  /// elements are values of their group.
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
