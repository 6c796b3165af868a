#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/engine/fast_executor.h"
#include "detent/inference/integer_executor.h"

namespace detent {

using Values = std::map<std::pair<std::string, std::string>, Tensor>;

/// The operands of every node in float32, and the results.
inline Values values_of(const Program& program, const Tensor& inputs) {
  Values values;
  const auto keep = [&](const Node& node, std::string_view operand, const Tensor& value) {
    values[{node.name, std::string(operand)}] = value.clone();
  };
  const std::vector<Tensor> results = program.run(std::span(&inputs, 1), {keep});
  for (size_t i = 0; i < results.size(); ++i) values[{"result", std::to_string(i)}] = results[i];
  return values;
}

inline bool same_values(const Tensor& expected, const Tensor& actual) {
  return expected.shape() == actual.shape() &&
         std::ranges::equal(expected.values<float>(), actual.values<float>());
}

struct Comparison {
  std::vector<std::string> disagreements;  // operands in which the two executions differ
  size_t operands = 0;
};

inline Comparison compare_executions(const Graph& graph, const Tensor& inputs) {
  const Values expected = values_of(IntegerProgram(graph), inputs);
  const Values actual = values_of(FastProgram(graph), inputs);
  Comparison comparison{{}, expected.size()};
  for (const auto& [operand, value] : expected) {
    const auto found = actual.find(operand);
    if (found != actual.end() && same_values(value, found->second)) continue;
    comparison.disagreements.push_back(operand.first + " " + operand.second);
  }
  return comparison;
}

}  // namespace detent
