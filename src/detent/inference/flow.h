#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "detent/core/parallel.h"
#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/graph/operators.h"
#include "detent/inference/code_type.h"
#include "detent/inference/float_node.h"

namespace detent {

/// A value between nodes: int32 codes of a type, a tensor of values, a number, or nothing.
struct Flow {
  Tensor tensor;
  std::optional<CodeType> type = {};
  Value number = {};  // NA of a tensor
  bool is_absent = false;
  std::optional<Tensor> sums = {};  // what float values were computed of, for observers

  bool is_tensor() const { return number.is_na() && !is_absent; }
  /// Frees what it holds: nobody reads it before it is assigned again.
  void drop() {
    tensor = {};
    sums.reset();
  }
  /// Codes or float32 values.
  bool is_float() const { return is_tensor() && (type || tensor.dtype() == DType::kFloat32); }
};

/// result[i] = map(input[i])
template <class From, class To, class Map>
Tensor mapped(const Tensor& input, Map map) {
  constexpr int64_t kGrain = 4096;
  Tensor result = unfilled_tensor(DTypeOf<To>::value, input.shape());
  const auto from = input.values<From>();
  const auto to = result.values<To>();
  parallel_for(input.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) to[i] = map(from[i]);
  });
  return result;
}

/// The flow of a node's constant or absent input.
Flow constant_flow(const NodeInput& input);

/// Codes become their values.
Tensor as_values(const Flow& flow);

/// In codes of `type`, if there is one. Throws Error naming the node where a value is NaN.
Flow converted(const Node& node, Flow flow, const std::optional<CodeType>& type);

/// As shape inference sees it, with the elements of a short tensor of integers.
Operand operand_of(const Flow& flow);

/// Operand or result of a node that computes in float.
FloatFlow float_flow(const Flow& flow);
Flow flow_of(FloatFlow flow);

}  // namespace detent
