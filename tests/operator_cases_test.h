#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// An input of a node: normal numbers of this shape after the batch dimension, unless something else is
/// said.
struct CaseInput {
  CaseInput(Shape sizes) : shape(std::move(sizes)) {}
  CaseInput(std::initializer_list<int64_t> sizes) : shape(sizes) {}

  /// Uniform in [least, most], or integers of these, both included.
  CaseInput between(double least, double most) const;
  CaseInput of(DType element_type, double least, double most) const;
  CaseInput without_batch() const;

  bool has_gradient() const { return dtype == DType::kFloat32 && !is_whole; }

  Shape shape;
  DType dtype = DType::kFloat32;
  bool is_bounded = false;
  bool is_whole = false;  // integers, of whatever dtype
  double low = 0;
  double high = 0;
  bool has_batch = true;
};

/// Kind of gradient: that of finite differences, 0 in steps that those cross, or none.
enum class CaseGradient { kSmooth, kSteps, kNone };

/// A node of one operator with attributes that differ from their defaults, and the same in direct calls.
struct OperatorCase {
  /// Looks up a parameter of the node; undefined when it has none of that name.
  using Lookup = std::function<at::Tensor(const char* parameter)>;
  using Reference = std::function<at::Tensor(const std::vector<at::Tensor>& inputs, const Lookup& parameter)>;

  std::string op;
  std::vector<CaseInput> inputs;  // shapes without batch
  std::vector<std::pair<std::string, Shape>> parameters = {};
  Table attributes = {};
  Reference reference = {};
  std::vector<NodeInput> constants = {};  // operands after the inputs
  CaseGradient gradient = CaseGradient::kSmooth;
  size_t result = 0;                                       // which one the reference gives
  bool is_total = true;                                    // defined, and finite, for all numbers
  std::vector<std::pair<std::string, Tensor>> given = {};  // constants, where not any elements do
  std::shared_ptr<const Graph> body = {};                  // whose inputs after the first two are `inputs`

  const CaseInput& input(size_t index) const { return inputs[index]; }
  bool has_gradient(size_t index) const {
    return gradient != CaseGradient::kNone && inputs[index].has_gradient();
  }
};

/// Every operator that computes at least once.
const std::vector<OperatorCase>& operator_cases();

// One list a file; operator_cases() joins them.
std::vector<OperatorCase> layer_and_shape_cases();
std::vector<OperatorCase> function_cases();
std::vector<OperatorCase> reduction_cases();
std::vector<OperatorCase> gather_cases();
std::vector<OperatorCase> dynamic_shape_cases();
std::vector<OperatorCase> resize_cases();
std::vector<OperatorCase> recurrent_cases();
std::vector<OperatorCase> quantized_cases();
std::vector<OperatorCase> table_cases();
std::vector<OperatorCase> lutnet_cases();
std::vector<OperatorCase> loop_cases();

/// A network of that one node, named "layer", with random parameters.
Graph one_operator_graph(const OperatorCase& operator_case);
/// Random inputs that fit it.
std::vector<at::Tensor> random_inputs(const OperatorCase& operator_case, int64_t batch);

}  // namespace detent
