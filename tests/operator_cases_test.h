#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// A node of one operator with attributes that differ from their defaults, and the same in direct calls.
struct OperatorCase {
  /// Looks up a parameter of the node; undefined when it has none of that name.
  using Lookup = std::function<at::Tensor(const char* parameter)>;

  std::string op;
  std::vector<Shape> inputs;  // without batch
  std::vector<std::pair<std::string, Shape>> parameters;
  Table attributes;
  std::function<at::Tensor(const std::vector<at::Tensor>& inputs, const Lookup& parameter)> reference;
};

/// Every quantizable operator at least once, and those that move elements.
const std::vector<OperatorCase>& operator_cases();

/// A network of that one node, named "layer", with random parameters.
Graph one_operator_graph(const OperatorCase& operator_case);
/// Random inputs that fit it: normal ones, or indices where the operator reads those.
std::vector<at::Tensor> random_inputs(const OperatorCase& operator_case, int64_t batch);

}  // namespace detent
