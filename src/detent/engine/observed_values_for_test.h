#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "detent/graph/executor.h"

namespace detent {

using ObservedFloats = std::map<std::pair<std::string, std::string>, std::vector<float>>;

/// Operands of a run before they are rounded: of layers on codes their sums, which the engine computes from
/// the weights that it has packed.
inline ObservedFloats values_before_rounding(const Program& program, const Tensor& input) {
  ObservedFloats values;
  const auto keep = [&](const Node& node, std::string_view operand, const Tensor& value) {
    const auto floats = value.values<float>();
    values[{node.name, std::string(operand)}] = {floats.begin(), floats.end()};
  };
  program.run(std::span(&input, 1), {keep, ObservedValues::kBeforeQuantization});
  return values;
}

}  // namespace detent
